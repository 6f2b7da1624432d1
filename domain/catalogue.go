package domain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Model is one entry of a catalogue. What it does not say is not known, and nothing is refused for it.
type Model struct {
	ID            string // what inputs and sessions ask for
	Provider      string // the provider's name
	Name          string // what the provider is asked for; "" is its default
	ContextWindow int    // tokens; 0 is unknown
	MaxOutput     int    // tokens of one answer, asked for unless an input says otherwise; 0 leaves it to the provider
	Modalities    []string
	Thinking      []string          // the levels that may be asked for, none when it is empty; nil is unknown
	Levels        map[string]string // what the provider is told for a level, where that is another word; "" is nothing
	Prices        Prices
	Disabled      bool
	Source        ModelSource
	Listed        bool // the provider's own list has it, so that the provider has none beside those that are listed
}

// ModelSource is the last layer of a catalogue that said something of an entry.
type ModelSource string

// The sources, each over the one before it.
const (
	SourceProvider ModelSource = "provider" // what the provider lists
	SourceFile     ModelSource = "file"     // the file of the deployment
	SourceTenant   ModelSource = "tenant"   // the tenant's own settings
)

// The modalities.
const (
	ModalityText  = "text"
	ModalityImage = "image"
)

// Takes reports whether requests to m may hold the modality.
func (m Model) Takes(modality string) bool {
	return m.Modalities == nil || slices.Contains(m.Modalities, modality)
}

// Level returns what the provider is told for a level of thinking.
func (m Model) Level(thinking string) string {
	if told, ok := m.Levels[thinking]; ok {
		return told
	}
	return thinking
}

// maxTemperature is the highest that any backend knows.
const maxTemperature = 2

// Check returns ErrInvalidRequest, which names the member of s, when m cannot do what s asks for.
func (m Model) Check(s Selection) error {
	switch {
	case s.Temperature != nil && (*s.Temperature < 0 || *s.Temperature > maxTemperature):
		return ErrInvalidRequest.At("temperature").With("must be from 0 to 2")
	case s.Thinking != "" && m.Thinking != nil && !slices.Contains(m.Thinking, s.Thinking):
		levels := "; it has none"
		if len(m.Thinking) > 0 {
			levels = "; it has " + strings.Join(m.Thinking, ", ")
		}
		return ErrInvalidRequest.At("thinking").With(fmt.Sprintf("the model %s has no level %s%s", m.title(), quoted(s.Thinking), levels))
	case m.MaxOutput > 0 && s.MaxTokens > m.MaxOutput:
		return ErrInvalidRequest.At("maxTokens").With(fmt.Sprintf("the model %s gives at most %d", m.title(), m.MaxOutput))
	}
	return nil
}

func (m Model) title() string { return cmp.Or(m.ID, m.Provider+"/"+m.Name) }

func quoted(s string) string { return quoteJSON(clip(s, maxDetail)) }

// ModelDefaults are what holds where neither the input nor the session chooses. Zero fields choose nothing.
type ModelDefaults struct {
	Model       string
	Thinking    string // where the model in force has the level
	Temperature *float64
}

// Apply returns s with what it leaves open for a turn of m.
func (d ModelDefaults) Apply(s Selection, m Model) Selection {
	if s.Thinking == "" && m.Check(Selection{Thinking: d.Thinking}) == nil {
		s.Thinking = d.Thinking
	}
	if s.Temperature == nil {
		s.Temperature = d.Temperature
	}
	return s
}

// Catalogue is all that may be asked for by one tenant. It never changes.
type Catalogue struct {
	Defaults  ModelDefaults
	providers []string // by name, the default first
	models    map[string]Model
	standards map[string]string    // provider → id of the entry of its default
	named     map[[2]string]string // provider and name → id of the entry
	closed    map[string]bool      // providers whose entries are all that there is
	away      []string             // providers whose list could not be had
}

// NewCatalogue returns the catalogue of what providers list, the default provider first. An entry that a provider lists
// first is its default. Of the providers that are away the list could not be had just now: whatever entries say of them,
// they may have more.
func NewCatalogue(providers []string, listed []Model, away ...string) *Catalogue {
	c := &Catalogue{providers: providers, models: map[string]Model{}, standards: map[string]string{}, away: away}
	for _, m := range listed {
		m.ID, m.Source = m.Provider+"/"+m.Name, SourceProvider
		c.models[m.ID] = m
		if _, ok := c.standards[m.Provider]; !ok {
			c.standards[m.Provider] = m.ID
		}
	}
	return c.indexed()
}

// With returns the catalogue with d laid over it.
func (c *Catalogue) With(d ModelDocument, source ModelSource) *Catalogue {
	next := &Catalogue{Defaults: c.Defaults, providers: c.providers, models: maps.Clone(c.models), standards: c.standards, away: c.away}
	for _, e := range d.entries {
		m, ok := c.models[e.id]
		if !ok {
			m = Model{}
			m.Provider, m.Name = c.split(e.id)
		}
		r := modelReader{reader: &reader{o: e.says}, lax: true}
		r.model(&m)
		if m.ID = e.id; !ok { // what is known of the model under another id holds here as well
			if below, found := c.below(m); found {
				below.Name = m.Name
				m = below
				r.model(&m)
			}
		}
		m.ID, m.Source = e.id, source
		next.models[e.id] = m
	}
	next.Defaults.Model = cmp.Or(d.Defaults.Model, next.Defaults.Model)
	next.Defaults.Thinking = cmp.Or(d.Defaults.Thinking, next.Defaults.Thinking)
	next.Defaults.Temperature = cmp.Or(d.Defaults.Temperature, next.Defaults.Temperature)
	return next.indexed()
}

// below returns what c knows of the model that m stands for, which may be the provider's default.
func (c *Catalogue) below(m Model) (Model, bool) {
	id := c.named[[2]string{m.Provider, m.Name}]
	if m.Name == "" {
		id = c.standards[m.Provider]
	}
	below, ok := c.models[id]
	return below, ok
}

// indexed completes c. Of several entries for one model the one of the highest source goes first that is not disabled,
// and of those the first by id.
func (c *Catalogue) indexed() *Catalogue {
	rank := []ModelSource{SourceProvider, SourceFile, SourceTenant}
	c.named, c.closed = map[[2]string]string{}, map[string]bool{}
	for _, m := range c.Models() {
		key := [2]string{m.Provider, m.Name}
		best := c.models[c.named[key]]
		better := best.Disabled && !m.Disabled || best.Disabled == m.Disabled && slices.Index(rank, m.Source) > slices.Index(rank, best.Source)
		if best.ID == "" || better {
			c.named[key] = m.ID
		}
		if m.Listed || m.Source != SourceProvider && !m.Disabled {
			c.closed[m.Provider] = true
		}
	}
	for _, provider := range c.away {
		delete(c.closed, provider)
	}
	return c
}

// Providers returns the names of the providers, the default first.
func (c *Catalogue) Providers() []string { return slices.Clone(c.providers) }

// Models returns all entries by id.
func (c *Catalogue) Models() []Model {
	all := make([]Model, 0, len(c.models))
	for _, id := range slices.Sorted(maps.Keys(c.models)) {
		all = append(all, c.models[id])
	}
	return all
}

// Resolve returns what model stands for: the id of an entry, "provider/name", the name of a provider for its default, or
// a name at the default provider; "" is the tenant's default. A provider of which nothing but its default is known may
// be asked for any name. Otherwise ErrUnknownModel names what is like it.
func (c *Catalogue) Resolve(model string) (Model, error) {
	model = cmp.Or(model, c.Defaults.Model)
	if m, ok := c.models[model]; ok {
		return m, c.usable(m)
	}
	provider, name := c.split(model)
	if name == "" {
		m, ok := c.models[c.standards[provider]]
		if err := c.usable(m); ok && err != nil {
			return Model{}, err
		}
		m.Provider, m.Name = provider, ""
		return m, nil
	}
	if id, ok := c.named[[2]string{provider, name}]; ok {
		return c.models[id], c.usable(c.models[id])
	}
	if c.closed[provider] {
		return Model{}, ErrUnknownModel.With("there is no model " + quoted(model) + c.strange(model) + c.near(model))
	}
	return Model{Provider: provider, Name: name}, nil
}

// usable returns ErrUnknownModel for an entry that nobody may ask for.
func (c *Catalogue) usable(m Model) error {
	switch {
	case m.Disabled:
		return ErrUnknownModel.With("the model " + quoted(m.ID) + " is disabled" + c.near(m.ID))
	case !c.reachable(m):
		return ErrUnknownModel.With("the model " + quoted(m.ID) + " is of the provider " + quoted(m.Provider) + ", which this server does not have")
	}
	return nil
}

// reachable reports whether the provider of an entry is there.
func (c *Catalogue) reachable(m Model) bool {
	return m.ID == "" || slices.Contains(c.providers, m.Provider)
}

// split returns the provider that model names, else the default one, and the rest.
func (c *Catalogue) split(model string) (provider, name string) {
	first, rest, _ := strings.Cut(model, "/")
	if slices.Contains(c.providers, first) {
		return first, rest
	}
	return c.providers[0], model
}

// strange says that model may mean a provider that is not there.
func (c *Catalogue) strange(model string) string {
	first, _, ok := strings.Cut(model, "/")
	if !ok || slices.Contains(c.providers, first) {
		return ""
	}
	return ", nor a provider " + quoted(first)
}

// near names what may be asked for and is like model; of the default provider's models the short names, unless only the
// whole one is like it.
func (c *Catalogue) near(model string) string {
	var ids, short []string
	for _, m := range c.Models() {
		if !m.Disabled && c.reachable(m) {
			ids, short = append(ids, m.ID), append(short, c.short(m.ID))
		}
	}
	slices.Sort(short)
	short = slices.Compact(short)
	like := nearest(c.short(model), short)
	if len(like) == 0 {
		like = nearest(model, ids)
	}
	return hint(like, short)
}

// short leaves the default provider out of a name.
func (c *Catalogue) short(model string) string { return strings.TrimPrefix(model, c.providers[0]+"/") }
