package models

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Credentials knows the credentials that tenants have brought for providers.
type Credentials interface {
	// Credential returns the tenant's own credential for a provider, none when there is none.
	Credential(ctx context.Context, tenant, provider string) (ports.Confidential, error)
}

// maxOwns bounds the tenants whose own lists are remembered.
const maxOwns = 1024

// own is what providers list for the credentials that a tenant brought. No other tenant sees it, and of a provider that
// has one the tenant sees nothing else.
type own struct {
	lists

	marks  map[string]mark // of the credentials, which are not kept, by provider
	broken map[string]list // of those that cannot be opened: nothing can be had for them

	alive context.Context // until they are forgotten
	end   context.CancelFunc

	// Guarded by Catalogues.mu.
	due    time.Time       // to be asked again
	listed map[string]list // by provider
	news   int             // how often listed came anew

	making sync.Mutex // guards the next two, and is taken before Catalogues.mu
	base   *domain.Catalogue
	of     origin // what base is made of
}

// origin is what the catalogue of a tenant with credentials is made of: what all tenants share, and its own lists.
type origin struct {
	shared *domain.Catalogue
	news   int
}

// credentials are those that a tenant has, by provider.
type credentials map[string]ports.Confidential

// unusable stands for a credential that cannot be opened. Nothing is listed for it: runs that need it fail.
var unusable = ports.NewConfidential("")

type mark [sha256.Size]byte

func (k credentials) marks() map[string]mark {
	marks := map[string]mark{}
	for name, key := range k {
		marks[name] = sha256.Sum256([]byte(key.Reveal()))
	}
	return marks
}

// look takes up which credentials the tenant has, and has the providers asked with those that are new, or when their lists
// are old. It waits for new ones, at most listTimeout. While the credentials cannot be read what was known holds.
// It returns nil where there are none.
func (c *Catalogues) look(ctx context.Context, tenant string) (*own, credentials) {
	keys, err := c.credentialsOf(ctx, tenant)
	if err != nil {
		return nil, nil
	}
	o := c.ownOf(tenant, keys)
	if o == nil {
		return nil, nil
	}
	o.wait(ctx)
	return o, keys
}

func (c *Catalogues) credentialsOf(ctx context.Context, tenant string) (credentials, error) {
	keys := credentials{}
	if c.cfg.Credentials == nil {
		return keys, nil
	}
	for _, name := range c.names {
		key, err := c.cfg.Credentials.Credential(ctx, tenant, name)
		switch {
		case err != nil && (errors.Is(err, ports.ErrUnavailable) || ctx.Err() != nil):
			return nil, err
		case err != nil:
			keys[name] = unusable
		case key.Given():
			keys[name] = key
		}
	}
	return keys, nil
}

// ownOf returns the lists for a tenant's credentials, nil when it has none or all is ending. They are asked for when they
// are due.
func (c *Catalogues) ownOf(tenant string, keys credentials) *own {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.owns[tenant]
	switch {
	case len(keys) == 0 || c.alive.Err() != nil:
		c.forget(tenant)
		return nil
	case o == nil || !maps.Equal(o.marks, keys.marks()):
		c.forget(tenant)
		makeRoom(c.owns, maxOwns, c.forget)
		o = c.newOwn(tenant, keys)
		c.owns[tenant] = o
	}
	if now := time.Now(); !now.Before(o.due) {
		o.due = now.Add(listEvery)
		c.asking.Go(func() { c.ask(o, keys) })
	}
	return o
}

// forget ends what is being asked for lists that nobody needs any more. c.mu is held.
func (c *Catalogues) forget(tenant string) {
	if o := c.owns[tenant]; o != nil {
		o.end()
		delete(c.owns, tenant)
	}
}

func (c *Catalogues) newOwn(tenant string, keys credentials) *own {
	o := &own{marks: keys.marks(), broken: map[string]list{}}
	o.alive, o.end = context.WithCancel(c.alive)
	var theirs []ports.Provider
	for _, p := range c.cfg.Providers {
		switch key, ok := keys[p.Name()]; {
		case ok && key.Reveal() == "":
			o.broken[p.Name()] = list{away: true}
		case ok:
			theirs = append(theirs, p)
		}
	}
	o.listed = o.broken
	o.init(theirs, c.cfg.Log.With(zap.String("tenant", tenant)), func(known map[string]list) {
		maps.Copy(known, o.broken)
		c.mu.Lock()
		defer c.mu.Unlock()
		o.listed = known
		o.news++
	})
	return o
}

func (c *Catalogues) ask(o *own, keys credentials) {
	whole := o.ask(o.alive, keys, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !whole {
		o.due = time.Now().Add(retryEvery)
	}
	o.waitNoMore()
}

// again asks on behalf of a request of a tenant, and reports whether there are lists that the request may not have seen.
func (c *Catalogues) again(ctx context.Context, tenant string) bool {
	ctx, cancel := context.WithTimeout(ctx, listTimeout) // for all of it
	defer cancel()
	o, keys := c.look(ctx, tenant)
	asked := c.lists.again(ctx, nil)
	return o != nil && o.again(ctx, keys) || asked
}

// explained says in a refusal of a model for which of the tenant's own credentials nothing is listed.
func (c *Catalogues) explained(tenant string, err error) error {
	refusal, ok := errors.AsType[*domain.Error](err)
	if !ok {
		return err
	}
	for _, name := range c.unlisted(tenant) {
		refusal = refusal.With(refusal.Detail + "; the tenant's own key for " + name + " lists no models")
	}
	return refusal
}

// unlisted returns the providers that list nothing for the credential that the tenant has for them, sorted.
func (c *Catalogues) unlisted(tenant string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.owns[tenant]
	if o == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(o.marks)), func(name string) bool {
		known, ok := o.listed[name]
		return ok && !known.away
	})
}

// baseOf returns the catalogue without the tenant's document. c.mu is not held: to make one takes as long as the lists are, and
// other tenants do not wait for it.
func (c *Catalogues) baseOf(tenant string) *domain.Catalogue {
	c.mu.Lock()
	o, shared := c.owns[tenant], c.base
	c.mu.Unlock()
	if o == nil {
		return shared
	}
	o.making.Lock()
	defer o.making.Unlock()
	of, listed := c.originOf(o)
	if o.base == nil || o.of != of {
		o.base, o.of = c.over(listed), of
	}
	return o.base
}

// originOf returns what o's catalogue has to be made of by now, and the lists of that by provider.
func (c *Catalogues) originOf(o *own) (origin, map[string]list) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listed := map[string]list{}
	maps.Copy(listed, c.listed)
	for name := range o.marks {
		listed[name] = o.listed[name]
	}
	return origin{c.base, o.news}, listed
}
