package domain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ModelDocument is one layer of a catalogue as people write it:
//
//	{"models"?: [{"id", "provider"?, "model"?, "contextWindow"?, "maxOutput"?, "modalities"?: ["text", "image"],
//	  "thinking"?: [level…], "thinkingValues"?: {level: value}, "enabled"?,
//	  "prices"?: {"currency", "input", "output", "cacheRead"?, "cacheWrite"?}}],
//	 "defaults"?: {"model"?, "thinking"?, "temperature"?}}
//
// An entry says of the model with its id what it gives, and leaves the rest as the layers below have it. Without
// provider and model its id is read like a model that an input asks for.
type ModelDocument struct {
	Defaults ModelDefaults
	entries  []modelEntry
}

type modelEntry struct {
	id   string
	says object
}

// ModelSettings is a tenant's catalogue: what the tenant wrote itself, and what holds.
type ModelSettings struct {
	Revision  int64   // of Document, 0 before the first
	Document  Payload // the tenant's own
	Catalogue *Catalogue
}

// maxModels bounds the entries of a document.
const maxModels = 1000

// ParseModels reads a document that somebody writes. It returns ErrInvalidRequest, with the path of the member at fault,
// for what a document may not have; members that it does not know are faults. The providers of entries must be among
// providers.
func ParseModels(p Payload, providers []string) (ModelDocument, error) {
	return parseModels(modelReader{reader: newReader(p), providers: providers})
}

// StoredModels reads a document that ParseModels has accepted, maybe of a later version or before a provider was taken
// away: what it does not know it passes over.
func StoredModels(p Payload) (ModelDocument, error) {
	return parseModels(modelReader{reader: newReader(p), lax: true})
}

// modelReader is a reader that knows what belongs where.
type modelReader struct {
	*reader
	providers []string
	lax       bool
}

func (r modelReader) sub(raw string) modelReader {
	r.reader = newReader(StoredPayload(raw))
	return r
}

func parseModels(r modelReader) (ModelDocument, error) {
	var d ModelDocument
	r.only("models", "defaults")
	seen := map[string]bool{}
	for i, raw := range r.list("models") {
		path := "models/" + strconv.Itoa(i)
		e := r.sub(raw)
		id, m := e.text("id"), Model{}
		e.model(&m)
		if err := CheckID(id); err != nil {
			e.fail("id", "must be a name of at most 200 characters")
		}
		if seen[id] {
			e.fail("id", "must not occur twice")
		}
		if e.o.has("provider") && !r.lax && !slices.Contains(r.providers, m.Provider) {
			e.fail("provider", "this server has no provider "+quoted(m.Provider)+Near(m.Provider, r.providers))
		}
		seen[id] = true
		r.within(path, e.err)
		d.entries = append(d.entries, modelEntry{id, e.o})
	}
	if len(d.entries) > maxModels {
		r.fail("models", "must have at most 1000 entries")
	}
	d.Defaults = r.defaults("defaults")
	if e, ok := errors.AsType[*Error](r.err); ok {
		return ModelDocument{}, ErrInvalidRequest.At(e.Field).With(e.Detail)
	}
	return d, nil
}

// model reads the members that are there into m.
func (r modelReader) model(m *Model) {
	r.only("id", "provider", "model", "contextWindow", "maxOutput", "modalities", "thinking", "thinkingValues", "prices", "enabled")
	for name, to := range map[string]*string{"provider": &m.Provider, "model": &m.Name} {
		if r.o.has(name) {
			if *to = r.id(name); *to == "" {
				r.fail(name, "must not be empty")
			}
		}
	}
	for name, to := range map[string]*int{"contextWindow": &m.ContextWindow, "maxOutput": &m.MaxOutput} {
		if r.o.has(name) {
			*to = int(r.count(name))
		}
	}
	if r.o.has("modalities") {
		m.Modalities = r.names("modalities")
		if slices.ContainsFunc(m.Modalities, func(s string) bool { return s != ModalityText && s != ModalityImage }) || len(m.Modalities) == 0 {
			r.fail("modalities", "must be text, image, or both")
		}
	}
	if r.o.has("thinking") {
		m.Thinking, m.Levels = r.names("thinking"), nil
	}
	if r.o.has("thinkingValues") {
		m.Levels = r.levels("thinkingValues", m.Thinking)
	}
	if r.o.has("prices") {
		m.Prices = r.prices("prices")
	}
	if r.o.has("enabled") {
		m.Disabled = !r.flag("enabled")
	}
}

// levels reads an object from known levels to strings.
func (r modelReader) levels(name string, known []string) map[string]string {
	raw, _ := r.o.get(name)
	v := r.sub(raw)
	levels := map[string]string{}
	for _, m := range v.o.members {
		if known != nil && !slices.Contains(known, m.name) {
			v.fail(m.name, "is not one of the levels of thinking")
		}
		levels[m.name] = v.text(m.name)
	}
	r.within(name, v.err)
	return levels
}

func (r modelReader) prices(name string) Prices {
	raw, _ := r.o.get(name)
	v := r.sub(raw)
	v.only("currency", "input", "output", "cacheRead", "cacheWrite")
	p := Prices{Currency: v.text("currency")}
	if !isCurrency(p.Currency) {
		v.fail("currency", "must be three capital letters, such as USD")
	}
	p.Input, p.Output = v.price("input", true), v.price("output", true)
	p.CacheRead, p.CacheWrite = v.price("cacheRead", false), v.price("cacheWrite", false)
	r.within(name, v.err)
	return p
}

// price reads a number, or a string, spelled as a decimal.
func (r *reader) price(name string, required bool) Amount {
	raw, ok := r.o.get(name)
	if !ok && !required {
		return ""
	}
	if kindOf(raw) == '"' {
		raw = r.text(name)
	}
	a, valid := parseAmount(raw, priceDigits, priceScale)
	if !valid {
		r.fail(name, "must be a price for a million tokens: a decimal with at most 9 digits before and 6 after the point, such as 0.25")
	}
	return a
}

func (r modelReader) defaults(name string) (d ModelDefaults) {
	raw, ok := r.o.get(name)
	if !ok {
		return d
	}
	v := r.sub(raw)
	v.only("model", "thinking", "temperature")
	d.Model, d.Thinking, d.Temperature = v.id("model"), v.text("thinking"), v.temperature("temperature")
	if d.Temperature != nil && v.err == nil {
		v.err = Model{}.Check(Selection{Temperature: d.Temperature})
	}
	r.within(name, v.err)
	return d
}

// only allows no members but these.
func (r modelReader) only(names ...string) {
	for _, m := range r.o.members {
		if !r.lax && !slices.Contains(names, m.name) {
			r.fail(clip(m.name, maxDetail), "is not a member that belongs here"+Near(m.name, names))
		}
	}
}

// within keeps the fault of a reader of the value at path.
func (r *reader) within(path string, fault error) {
	if e, ok := errors.AsType[*Error](fault); ok {
		r.fail(strings.TrimSuffix(path+"/"+e.Field, "/"), e.Detail)
	}
}

// list reads an array of anything.
func (r *reader) list(name string) []string {
	raw, ok := r.o.get(name)
	if !ok {
		return nil
	}
	list, err := elements(raw)
	if err != nil {
		r.fail(name, "must be an array")
	}
	return list
}

// names reads an array of different names, not nil.
func (r *reader) names(name string) []string {
	names := []string{}
	for i, raw := range r.list(name) {
		s, err := unquoteJSON(raw)
		if err != nil || CheckID(s) != nil || slices.Contains(names, s) {
			r.fail(fmt.Sprintf("%s/%d", name, i), "must be a name that occurs once")
		}
		names = append(names, s)
	}
	return names
}
