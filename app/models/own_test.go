package models_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// keyring holds the credentials of tests, by tenant and provider: "t a".
type keyring struct {
	mu   sync.Mutex
	keys map[string]string
	away bool
}

func (k *keyring) Credential(_ context.Context, tenant, provider string) (ports.Confidential, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away {
		return ports.Confidential{}, ports.ErrUnavailable
	}
	if k.keys[tenant+" "+provider] == "broken" {
		return ports.Confidential{}, errors.New("it does not open")
	}
	if key, ok := k.keys[tenant+" "+provider]; ok {
		return ports.NewConfidential(key), nil
	}
	return ports.Confidential{}, nil
}

func (k *keyring) put(of, key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys[of] = key
}

func (k *keyring) remove(of string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.keys, of)
}

// lists gives a house a list for each key. It counts who asked.
func (h *house) lists(byKey map[string][]string) *asks {
	a := &asks{byKey: byKey, of: map[string]int{}}
	h.theirs = a.answer
	return a
}

type asks struct {
	mu    sync.Mutex
	byKey map[string][]string
	takes time.Duration
	of    map[string]int // by key
}

func (a *asks) answer(ctx context.Context, key string) ([]ports.Model, error) {
	a.mu.Lock()
	a.of[key]++
	ids, ok := a.byKey[key]
	takes := a.takes
	a.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !ok {
		return nil, &ports.ProviderError{Class: ports.Fatal, Status: 401, Message: "no such key"}
	}
	var list []ports.Model
	for _, id := range ids {
		list = append(list, ports.Model{ID: id, Listed: true, ContextWindow: 100})
	}
	return list, nil
}

func (a *asks) set(key string, takes time.Duration, ids ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byKey[key], a.takes = ids, takes
}

func (a *asks) count(key string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[key]
}

// refused is the detail of a refusal of an unknown model.
func refused(t *testing.T, c *models.Catalogues, tenant, model string) string {
	t.Helper()
	_, _, err := c.Resolve(t.Context(), tenant, model)
	require.ErrorIs(t, err, domain.ErrUnknownModel)
	var refusal *domain.Error
	require.ErrorAs(t, err, &refusal)
	return refusal.Detail
}

// ids are the models of a tenant's catalogue.
func ids(t *testing.T, c *models.Catalogues, tenant string) string {
	t.Helper()
	s, err := c.Settings(t.Context(), tenant)
	require.NoError(t, err)
	text := ""
	for _, m := range s.Catalogue.Models() {
		text += m.Provider + ":" + m.Name + " "
	}
	return text
}

// withKeys are catalogues of the providers a and b, of which a has no list without a tenant's key.
func withKeys(t *testing.T, keys map[string]string) (*models.Catalogues, *keyring, *asks) {
	return withKeysAnd(t, newHouse("b", "bee"), keys)
}

func withKeysAnd(t *testing.T, b *house, keys map[string]string) (*models.Catalogues, *keyring, *asks) {
	a := newHouse("a")
	a.list.Store(nil)
	asked := a.lists(map[string][]string{"k1": {"one", "both"}, "k2": {"two", "both"}})
	k := &keyring{keys: keys}
	c := started(t, models.Config{
		Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{a, b}, Credentials: k,
	})
	return c, k, asked
}

// Each tenant sees what the provider lists for its own key, at once, and nobody else's.
func TestListsForTheTenantsOwnKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, asked := withKeys(t, map[string]string{"t a": "k1", "u a": "k2", "same a": "k1"})
		require.Equal(t, `there is no model "onr"; did you mean one?`, refused(t, c, "t", "onr"))
		require.Equal(t, `there is no model "twp"; did you mean two?`, refused(t, c, "u", "twp"))
		require.Equal(t, "a:onr", resolved(t, c, "keyless", "onr"), "who has no key gets no list, and any name passes")
		require.Equal(t, "a:both a:one b:bee ", ids(t, c, "t"))
		require.Equal(t, "a:both a:two b:bee ", ids(t, c, "u"))
		require.Equal(t, "b:bee ", ids(t, c, "keyless"))
		require.Equal(t, "a:both a:one b:bee ", ids(t, c, "same"))
		for range 100 {
			require.Equal(t, "a:one", resolved(t, c, "t", "one"))
			ids(t, c, "t")
		}
		require.Equal(t, []int{2, 1}, []int{asked.count("k1"), asked.count("k2")}, "a tenant, once")
	})
}

func TestListsFollowTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, k, asked := withKeys(t, map[string]string{})
		require.Equal(t, "b:bee ", ids(t, c, "t"))
		k.put("t a", "k1")
		require.Equal(t, "a:both a:one b:bee ", ids(t, c, "t"), "at once for who looks")
		k.put("t a", "k2")
		require.Equal(t, "a:two", resolved(t, c, "t", "two"), "at once where the old list would refuse")
		time.Sleep(models.Fresh)
		require.Contains(t, refused(t, c, "t", "one"), "there is b/bee, both, two")
		k.away = true
		require.Equal(t, "a:both a:two b:bee ", ids(t, c, "t"), "what is known holds while the keys cannot be read")
		k.away = false
		k.remove("t a")
		require.Equal(t, "b:bee ", ids(t, c, "t"))
		require.Equal(t, []int{1, 1}, []int{asked.count("k1"), asked.count("k2")})
	})
}

// A provider of which a tenant has a key of its own does not show it what it lists for the server.
func TestTheServersListIsNoTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newHouse("a", "server")
		asked := a.lists(map[string][]string{"k1": {"mine"}})
		k := &keyring{keys: map[string]string{"t a": "k1", "bad a": "k0", "lost a": "broken"}}
		c := started(t, models.Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{a}, Credentials: k})
		time.Sleep(time.Minute) // so that what the server itself asks for does not come at the same time
		require.Equal(t, "a:mine ", ids(t, c, "t"))
		require.Equal(t, "", ids(t, c, "bad"), "a key that the provider refuses lists nothing")
		require.Equal(t, "", ids(t, c, "lost"), "nor does one that cannot be opened")
		require.Equal(t, "a:server", resolved(t, c, "bad", "server"), "nothing is known to be missing")
		require.Equal(t, "a:server ", ids(t, c, "other"))
		require.Contains(t, refused(t, c, "t", "server"), "there is no model")
		_, err := c.Put(t.Context(), "t", domaintest.Payload(`{"defaults":{"model":"server"}}`), ports.AnyRevision)
		require.ErrorIs(t, err, domain.ErrUnknownModel)
		put(t, c, "t", `{"defaults":{"model":"mine"}}`)
		put(t, c, "other", `{"defaults":{"model":"server"}}`)
		a.has("server", "later")
		asked.set("k1", 0, "mine", "more")
		time.Sleep(4*time.Minute + 30*time.Second)
		require.Equal(t, "a:mine ", ids(t, c, "t"))
		time.Sleep(time.Minute)
		ids(t, c, "t")
		synctest.Wait()
		require.Equal(t, "a:mine a:more ", ids(t, c, "t"), "also after the server's list has changed")
		require.Equal(t, "a:later a:server ", ids(t, c, "other"))
		require.Equal(t, 2, asked.count("k1"))
	})
}

// What a tenant's entries make whole stays whole when its provider refuses its key, and the refusal says so. A key that cannot be
// opened refuses nothing: its runs say what is wrong.
func TestRefusalsNameTheKeyThatListsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, k, _ := withKeys(t, map[string]string{"bad a": "k0", "lost a": "broken", "good a": "k1"})
		for _, tenant := range []string{"bad", "lost", "good"} {
			put(t, c, tenant, `{"models":[{"id":"cheap","provider":"a","model":"x"}]}`)
		}
		const why = `there is no model "onr"; there is b/bee, cheap; the tenant's own key for a lists no models`
		require.Equal(t, why, refused(t, c, "bad", "onr"))
		require.Equal(t, "a:onr", resolved(t, c, "lost", "onr"))
		require.Equal(t, `there is no model "onr"; did you mean one?`, refused(t, c, "good", "onr"))
		_, err := c.Put(t.Context(), "bad", domaintest.Payload(`{"models":[{"id":"cheap"}],"defaults":{"model":"chaep"}}`), ports.AnyRevision)
		require.ErrorContains(t, err, "did you mean cheap?; the tenant's own key for a lists no models")
		k.put("bad a", "k1")
		ids(t, c, "bad")
		require.Equal(t, `there is no model "onr"; did you mean one?`, refused(t, c, "bad", "onr"))
	})
}

// Old lists are asked for again without anybody waiting; a slow provider holds up a request for a short time alone.
func TestOwnListsAgeInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, k, asked := withKeys(t, map[string]string{"t a": "k1"})
		asked.set("k1", time.Minute, "slow")
		began := time.Now()
		require.Equal(t, "b:bee ", ids(t, c, "t"))
		require.Equal(t, 3*time.Second, time.Since(began))
		time.Sleep(time.Minute)
		require.Equal(t, "a:slow b:bee ", ids(t, c, "t"))
		asked.set("k1", time.Minute, "next")
		time.Sleep(5 * time.Minute)
		began = time.Now()
		require.Equal(t, "a:slow b:bee ", ids(t, c, "t"))
		require.Zero(t, time.Since(began))
		time.Sleep(time.Minute + time.Second)
		require.Equal(t, "a:next b:bee ", ids(t, c, "t"))
		require.Equal(t, 2, asked.count("k1"))
		k.put("t a", "k2")
		began = time.Now()
		refused(t, c, "t", "b/nonsense")
		require.LessOrEqual(t, time.Since(began), 6*time.Second, "whatever is asked, and then looked at again")
	})
}

// A list that could not be had is asked for again sooner, and so is one that lacks what a request names.
func TestOwnListsAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, asked := withKeys(t, map[string]string{"t a": "k3", "u a": "k1"})
		require.Equal(t, "b:bee ", ids(t, c, "t"))
		time.Sleep(29 * time.Second)
		require.Equal(t, "b:bee ", ids(t, c, "t"))
		require.Equal(t, 1, asked.count("k3"))
		asked.set("k3", 0, "three")
		time.Sleep(time.Second)
		ids(t, c, "t")
		synctest.Wait()
		require.Equal(t, "a:three b:bee ", ids(t, c, "t"))

		require.Equal(t, "a:one", resolved(t, c, "u", "one"))
		asked.set("k1", 0, "one", "new")
		time.Sleep(10 * time.Second)
		require.Equal(t, "a:new", resolved(t, c, "u", "new"))
		require.Equal(t, 2, asked.count("k1"))
		for range 10 {
			refused(t, c, "u", "nonsense")
		}
		require.Equal(t, 2, asked.count("k1"))
	})
}

func TestOwnListsStandBesideTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHouse("b", "bee")
		c, _, asked := withKeysAnd(t, b, map[string]string{"t a": "k1"})
		require.Equal(t, "a:both a:one b:bee ", ids(t, c, "t"))
		b.has("bee", "fly")
		time.Sleep(10 * time.Second)
		require.Equal(t, "b:fly", resolved(t, c, "keyless", "b/fly"))
		require.Equal(t, "a:both a:one b:bee b:fly ", ids(t, c, "t"))
		require.Equal(t, 1, asked.count("k1"))
	})
}

func TestManyTenantsWithKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := map[string]string{}
		for i := range 1100 {
			keys[fmt.Sprintf("t%d a", i)] = "k1"
		}
		c, _, asked := withKeys(t, keys)
		for i := range 1100 {
			require.Equal(t, "a:both a:one b:bee ", ids(t, c, fmt.Sprint("t", i)))
		}
		require.Equal(t, 1100, asked.count("k1"))
		for i := range 1100 {
			ids(t, c, fmt.Sprint("t", i))
		}
		require.Greater(t, asked.count("k1"), 1100, "some were forgotten")
	})
}

func TestTheEndWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := withKeys(t, map[string]string{"t a": "k1"})
		c.Close(t.Context())
		began := time.Now()
		require.Equal(t, "b:bee ", ids(t, c, "t"))
		require.Zero(t, time.Since(began))
	})
}
