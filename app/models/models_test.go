package models_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/app/models"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// house is a provider of which only the list is asked for.
type house struct {
	ports.Provider
	name  string
	list  atomic.Pointer[[]ports.Model] // nil: it does not answer
	asked atomic.Int64

	theirs func(ctx context.Context, key string) ([]ports.Model, error) // asked for with a tenant's own
}

func newHouse(name string, ids ...string) *house {
	h := &house{name: name}
	h.has(ids...)
	return h
}

func (h *house) has(ids ...string) {
	list := []ports.Model{}
	for _, id := range ids {
		list = append(list, ports.Model{ID: id, Listed: true, ContextWindow: 100})
	}
	h.list.Store(&list)
}

func (h *house) Name() string { return h.name }

func (h *house) Models(ctx context.Context, credential ports.Confidential) ([]ports.Model, error) {
	if credential.Given() {
		return h.theirs(ctx, credential.Reveal())
	}
	h.asked.Add(1)
	if list := h.list.Load(); list != nil {
		return *list, nil
	}
	return nil, errors.New("no answer")
}

// counted counts what is read, and can be away.
type counted struct {
	ports.Settings
	reads atomic.Int64
	away  atomic.Bool
}

func (c *counted) Get(ctx context.Context, tenant, name string) (ports.Setting, error) {
	c.reads.Add(1)
	if c.away.Load() {
		return ports.Setting{}, ports.ErrUnavailable
	}
	return c.Settings.Get(ctx, tenant, name)
}

// started returns catalogues that know the lists of the providers.
func started(t *testing.T, cfg models.Config) *models.Catalogues {
	c := models.New(cfg)
	c.Start()
	t.Cleanup(func() { c.Close(context.Background()) })
	synctest.Wait()
	return c
}

func put(t *testing.T, c *models.Catalogues, tenant, document string) domain.ModelSettings {
	t.Helper()
	s, err := c.Put(t.Context(), tenant, domaintest.Payload(document), ports.AnyRevision)
	require.NoError(t, err)
	return s
}

// resolved returns the provider and the name that a model stands for.
func resolved(t *testing.T, c *models.Catalogues, tenant, model string) string {
	t.Helper()
	m, _, err := c.Resolve(t.Context(), tenant, model)
	require.NoError(t, err)
	return m.Provider + ":" + m.Name
}

func TestTenantsHaveTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := started(t, models.Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{newHouse("a", "m1", "m2"), newHouse("b", "n")}})
		require.Equal(t, int64(1), put(t, c, "t", `{"defaults":{"model":"m2","thinking":"low"},"models":[{"id":"fast","provider":"b","model":"n"}]}`).Revision)
		require.Equal(t, "a:m2", resolved(t, c, "t", ""))
		require.Equal(t, "b:n", resolved(t, c, "t", "fast"))
		require.Equal(t, "a:", resolved(t, c, "u", ""))
		_, _, err := c.Resolve(t.Context(), "u", "fast")
		require.ErrorIs(t, err, domain.ErrUnknownModel)
		_, defaults, err := c.Resolve(t.Context(), "t", "m1")
		require.NoError(t, err)
		require.Equal(t, "low", defaults.Thinking)

		for document, field := range map[string]string{
			`{"defaults":{"model":"m3"}}`: "defaults/model", `{"models":[{"id":"x","provider":"c"}]}`: "models/0/provider",
			`{"models":[{"id":"a/m1","thinking":["low"]}],"defaults":{"thinking":"high"}}`: "defaults/thinking",
		} {
			_, err := c.Put(t.Context(), "t", domaintest.Payload(document), ports.AnyRevision)
			var refusal *domain.Error
			require.True(t, errors.As(err, &refusal), document)
			require.Equal(t, field, refusal.Field, document)
		}
		_, err = c.Put(t.Context(), "t", domaintest.Payload(`{}`), 7)
		require.ErrorIs(t, err, domain.ErrRevisionConflict)
		require.ErrorContains(t, err, "its revision is 1")
		_, err = c.Put(t.Context(), "nobody", domaintest.Payload(`{}`), 7)
		require.ErrorContains(t, err, "its revision is 0")
		require.Equal(t, "a:m2", resolved(t, c, "t", ""), "what was refused changed nothing")
	})
}

// What one process writes holds in another after two seconds, and at once in its own; in between nothing is read.
func TestOtherProcessesFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Settings: memory.New(memory.Config{}).Settings()}
		cfg := models.Config{Settings: store, Providers: []ports.Provider{newHouse("a", "m1", "m2")}}
		one, two := started(t, cfg), started(t, cfg)
		require.Equal(t, "a:", resolved(t, two, "t", ""))
		put(t, one, "t", `{"defaults":{"model":"m2"}}`)
		require.Equal(t, "a:m2", resolved(t, one, "t", ""))
		store.reads.Store(0)
		for range 100 {
			require.Equal(t, "a:", resolved(t, two, "t", ""))
		}
		require.Zero(t, store.reads.Load())
		time.Sleep(models.Fresh)
		for range 100 {
			require.Equal(t, "a:m2", resolved(t, two, "t", ""))
		}
		require.Equal(t, int64(1), store.reads.Load())

		store.away.Store(true)
		time.Sleep(models.Fresh)
		require.Equal(t, "a:m2", resolved(t, two, "t", ""), "the latest that is known holds")
		_, _, err := two.Resolve(t.Context(), "stranger", "")
		require.ErrorIs(t, err, ports.ErrUnavailable)
		_, err = two.Settings(t.Context(), "t")
		require.ErrorIs(t, err, ports.ErrUnavailable, "who asks what the store has is not told something old")
	})
}

// slow is a provider that takes its time to list its models.
type slow struct {
	*house
	takes time.Duration
}

func (s slow) Models(ctx context.Context, credential ports.Confidential) ([]ports.Model, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.house.Models(ctx, credential)
}

func TestListedWaitsForTheFirstLists(t *testing.T) {
	for _, c := range []struct{ takes, waits time.Duration }{{0, 0}, {2 * time.Second, 2 * time.Second}, {time.Minute, 3 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			all := models.New(models.Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{slow{newHouse("a", "m"), c.takes}}})
			all.Start()
			defer all.Close(t.Context())
			ended, end := context.WithCancel(t.Context())
			end()
			all.Listed(ended)
			began := time.Now()
			all.Listed(t.Context())
			all.Listed(t.Context())
			require.Equal(t, c.waits, time.Since(began))
			m, _, err := all.Resolve(t.Context(), "t", "m")
			require.NoError(t, err)
			require.Equal(t, c.takes <= c.waits, m.ContextWindow == 100)
		})
	}
}

// A model that the provider has since a moment ago can be asked for at once; who asks for nonsense does not make the
// provider be asked each time.
func TestUnknownModelsAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newHouse("a", "m1")
		c := started(t, models.Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{a}})
		a.has("m1", "new")
		time.Sleep(10 * time.Second)
		require.Equal(t, "a:new", resolved(t, c, "t", "new"))
		require.Equal(t, int64(2), a.asked.Load())
		for range 10 {
			_, _, err := c.Resolve(t.Context(), "t", "nonsense")
			require.ErrorIs(t, err, domain.ErrUnknownModel)
		}
		require.Equal(t, int64(2), a.asked.Load())

		a.list.Store(nil)
		time.Sleep(10 * time.Minute)
		require.Greater(t, a.asked.Load(), int64(10), "a provider that does not answer is asked more often")
		require.Equal(t, "a:new", resolved(t, c, "t", "new"), "its last list holds")
		a.has("m1")
		time.Sleep(time.Minute)
		_, _, err := c.Resolve(t.Context(), "t", "new")
		require.ErrorIs(t, err, domain.ErrUnknownModel)
	})
}

// A provider that never told what it has may be asked for anything, also when entries would make it whole: a restart while its
// list cannot be had refuses no model of a session. Once the list is there, it holds whatever happens.
func TestSilentProvidersRefuseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newHouse("a", "one")
		list := a.list.Swap(nil)
		c := started(t, models.Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{a}})
		require.Equal(t, "a:any", resolved(t, c, "t", "any"))
		put(t, c, "t", `{"models":[{"id":"cheap","provider":"a","model":"x"}]}`)
		require.Equal(t, "a:any", resolved(t, c, "t", "any"))
		require.Equal(t, "a:x", resolved(t, c, "t", "cheap"))
		a.list.Store(list)
		time.Sleep(time.Minute)
		for range 2 {
			require.Equal(t, `there is no model "any"; did you mean one?`, refused(t, c, "t", "any"))
			a.list.Store(nil)
			time.Sleep(time.Hour)
		}
	})
}

// A document outlives a provider that is taken away, and members that a later version has written.
func TestStoredDocumentsAreReadAsFarAsTheyAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := memory.New(memory.Config{}).Settings()
		document := `{"models":[{"id":"gone","provider":"b","model":"n","later":1},{"id":"m","model":"m1"}],"later":{}}`
		_, err := settings.Put(t.Context(), "t", "models", document, 0)
		require.NoError(t, err)
		c := started(t, models.Config{Settings: settings, Providers: []ports.Provider{newHouse("a", "m1")}})
		require.Equal(t, "a:m1", resolved(t, c, "t", "m"))
		_, _, err = c.Resolve(t.Context(), "t", "gone")
		require.ErrorContains(t, err, "which this server does not have")
		s, err := c.Settings(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, document, s.Document.String())

		_, err = settings.Put(t.Context(), "u", "models", `{"models":7}`, 0)
		require.NoError(t, err)
		_, _, err = c.Resolve(t.Context(), "u", "m1")
		require.ErrorContains(t, err, "the stored catalogue cannot be read")
		var refusal *domain.Error
		require.False(t, errors.As(err, &refusal), "it is not the caller's fault")
	})
}
