// Package models keeps the catalogues of models: what the providers list, over it the deployment's file, and over that
// each tenant's own document.
package models

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// documentName is the name of a tenant's document among its settings.
const documentName = "models"

// Fresh is how long a tenant's document is used without a look at the store: what another process has changed holds here
// after that at the latest.
const Fresh = 2 * time.Second

// maxTenants bounds the catalogues that are remembered.
const maxTenants = 4096

// Config is what catalogues are made of.
type Config struct {
	Settings    ports.Settings
	Providers   []ports.Provider     // the default first, one at least
	Credentials Credentials          // of tenants; nil when they bring none
	File        domain.ModelDocument // of the deployment; the zero one says nothing
	Compact     string               // the model that writes summaries; "" is none in particular
	Log         *zap.Logger          // may be nil
}

// Catalogues are the catalogues of all tenants. They are safe for concurrent use.
type Catalogues struct {
	cfg   Config
	names []string // of the providers
	lists lists

	doubted map[string]bool // what was warned of; lists.asking guards it

	alive   context.Context // until Close
	end     context.CancelFunc
	asking  sync.WaitGroup
	mu      sync.Mutex
	listed  map[string]list   // by provider
	base    *domain.Catalogue // of listed, without any tenant's document
	tenants map[string]*tenant
	owns    map[string]*own // by tenant
}

// tenant is what is remembered of one. The catalogue is made of stored, over base.
type tenant struct {
	looked    time.Time
	stored    ports.Setting
	base      *domain.Catalogue
	catalogue *domain.Catalogue
}

// New returns catalogues that know nothing of what providers list before Start.
func New(cfg Config) *Catalogues {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	c := &Catalogues{cfg: cfg, tenants: map[string]*tenant{}, owns: map[string]*own{}, doubted: map[string]bool{}}
	c.alive, c.end = context.WithCancel(context.Background())
	for _, p := range cfg.Providers {
		c.names = append(c.names, p.Name())
	}
	c.lists.init(cfg.Providers, cfg.Log, func(listed map[string]list) {
		c.rebase(listed)
		c.doubt(listed)
	})
	c.rebase(nil)
	return c
}

// rebase takes over what the providers list.
func (c *Catalogues) rebase(listed map[string]list) {
	base := c.over(listed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed, c.base = listed, base
}

// over returns the catalogue of what providers list with the deployment's file.
func (c *Catalogues) over(listed map[string]list) *domain.Catalogue {
	all, away := merged(c.names, listed)
	return domain.NewCatalogue(c.names, all, away...).With(c.cfg.File, domain.SourceFile)
}

// Start begins to ask the providers for their lists, now and then, until Close.
func (c *Catalogues) Start() { c.asking.Go(func() { c.lists.run(c.alive) }) }

// Listed waits until the providers have answered for the first time since Start, for three seconds after it at most.
func (c *Catalogues) Listed(ctx context.Context) { c.lists.wait(ctx) }

// Close ends what Start began, and what is being asked for tenants. It waits for that until ctx ends, and never long.
func (c *Catalogues) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		c.asking.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// Resolve returns what model stands for in the tenant's catalogue, and the defaults there. Before it returns
// domain.ErrUnknownModel it asks the providers once more, unless they were asked just now.
func (c *Catalogues) Resolve(ctx context.Context, tenant, model string) (domain.Model, domain.ModelDefaults, error) {
	s, err := c.current(ctx, tenant)
	if err != nil {
		return domain.Model{}, domain.ModelDefaults{}, err
	}
	m, err := s.Catalogue.Resolve(model)
	if errors.Is(err, domain.ErrUnknownModel) && c.again(ctx, tenant) {
		if s, err = c.current(ctx, tenant); err != nil {
			return domain.Model{}, domain.ModelDefaults{}, err
		}
		m, err = s.Catalogue.Resolve(model)
	}
	return m, s.Catalogue.Defaults, c.explained(tenant, err)
}

// current returns the tenant's settings, at most Fresh behind the store. While the store cannot be read the latest that
// is known holds.
func (c *Catalogues) current(ctx context.Context, tenant string) (domain.ModelSettings, error) {
	stored, known, fresh := c.remembered(tenant)
	if fresh {
		return c.keep(tenant, stored, false)
	}
	s, err := c.Settings(ctx, tenant)
	if errors.Is(err, ports.ErrUnavailable) && known {
		return c.keep(tenant, stored, false)
	}
	return s, err
}

// Settings returns the tenant's settings as the store has them now.
func (c *Catalogues) Settings(ctx context.Context, tenant string) (domain.ModelSettings, error) {
	c.look(ctx, tenant)
	stored, err := c.cfg.Settings.Get(ctx, tenant, documentName)
	if err != nil && !errors.Is(err, domain.ErrNotFound) {
		return domain.ModelSettings{}, err
	}
	return c.keep(tenant, stored, true)
}

// remembered returns the document that is known, and whether it need not be read. Of several callers at once one reads
// an aged document anew.
func (c *Catalogues) remembered(tenant string) (stored ports.Setting, known, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[tenant]
	if t == nil {
		return ports.Setting{}, false, false
	}
	fresh = time.Since(t.looked) < Fresh
	if !fresh {
		t.looked = time.Now()
	}
	return t.stored, true, fresh
}

// keep remembers a document, read just now or not, and returns the settings that it makes. Of two documents of a tenant the
// later one holds, whichever was read last.
func (c *Catalogues) keep(name string, stored ports.Setting, read bool) (domain.ModelSettings, error) {
	base := c.baseOf(name)
	stored, catalogue := c.kept(name, stored, base)
	if catalogue == nil { // made without c.mu, since it takes as long as the lists are
		var err error
		if catalogue, err = overlay(base, stored); err != nil {
			return domain.ModelSettings{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[name]
	if t == nil {
		makeRoom(c.tenants, maxTenants, func(other string) { delete(c.tenants, other) })
		t = &tenant{}
		c.tenants[name] = t
	}
	if read {
		t.looked = time.Now()
	}
	if stored.Revision >= t.stored.Revision {
		t.stored, t.base, t.catalogue = stored, base, catalogue
	}
	return settings(stored, catalogue), nil
}

// kept returns the later one of stored and the document that is known, and the catalogue that it makes over base, nil when that
// has to be made.
func (c *Catalogues) kept(name string, stored ports.Setting, base *domain.Catalogue) (ports.Setting, *domain.Catalogue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[name]
	switch {
	case t == nil:
		return stored, nil
	case stored.Revision < t.stored.Revision: // it was read before a later one
		stored = t.stored
	}
	if t.base != base || t.stored != stored {
		return stored, nil
	}
	return stored, t.catalogue
}

// makeRoom has tenants forgotten, of whom nothing is lost by that, while there are too many.
func makeRoom[T any](tenants map[string]T, most int, forget func(tenant string)) {
	for other := range tenants {
		if len(tenants) < most {
			return
		}
		forget(other)
	}
}

func overlay(base *domain.Catalogue, stored ports.Setting) (*domain.Catalogue, error) {
	if stored.Revision == 0 {
		return base, nil
	}
	document, err := domain.StoredModels(domain.StoredPayload(stored.Document))
	if err != nil {
		return nil, fmt.Errorf("the stored catalogue cannot be read: %v", err) //nolint:errorlint // it is no refusal of the caller's
	}
	return base.With(document, domain.SourceTenant), nil
}

func settings(stored ports.Setting, catalogue *domain.Catalogue) domain.ModelSettings {
	s := domain.ModelSettings{Revision: stored.Revision, Document: domain.StoredPayload("{}"), Catalogue: catalogue}
	if stored.Revision > 0 {
		s.Document = domain.StoredPayload(stored.Document)
	}
	return s
}

// Put replaces the tenant's document, if its revision is the expected one (ports.Settings). It returns
// domain.ErrInvalidRequest or domain.ErrUnknownModel, with the path of the member at fault, for a document that cannot
// hold, and domain.ErrRevisionConflict.
func (c *Catalogues) Put(ctx context.Context, tenant string, document domain.Payload, expected int64) (domain.ModelSettings, error) {
	parsed, err := domain.ParseModels(document, c.names)
	if err != nil {
		return domain.ModelSettings{}, err
	}
	c.look(ctx, tenant)
	if err := c.checkDefaults(tenant, parsed); err != nil {
		return domain.ModelSettings{}, err
	}
	stored, err := c.cfg.Settings.Put(ctx, tenant, documentName, document.String(), expected)
	if err != nil {
		return domain.ModelSettings{}, c.withRevision(ctx, tenant, err)
	}
	return c.keep(tenant, stored, true)
}

// withRevision says in a conflict which revision there is.
func (c *Catalogues) withRevision(ctx context.Context, tenant string, err error) error {
	refusal, ok := errors.AsType[*domain.Error](err)
	if !ok || !errors.Is(err, domain.ErrRevisionConflict) {
		return err
	}
	stored, fault := c.cfg.Settings.Get(ctx, tenant, documentName)
	if fault != nil && !errors.Is(fault, domain.ErrNotFound) {
		return err
	}
	return refusal.With(fmt.Sprintf("%s; its revision is %d", refusal.Detail, stored.Revision))
}

// checkDefaults returns an error when the defaults of a document name what there is not.
func (c *Catalogues) checkDefaults(tenant string, d domain.ModelDocument) error {
	m, err := c.baseOf(tenant).With(d, domain.SourceTenant).Resolve(d.Defaults.Model)
	if err != nil && d.Defaults.Model != "" {
		return at("defaults/model", c.explained(tenant, err))
	}
	return at("defaults/thinking", m.Check(domain.Selection{Thinking: d.Defaults.Thinking}))
}

// at names the member at fault in a refusal.
func at(field string, err error) error {
	if refusal, ok := errors.AsType[*domain.Error](err); ok {
		return refusal.At(field)
	}
	return err
}
