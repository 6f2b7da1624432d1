package models_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/app/models"
	"github.com/keel-agent/keel/ports"
)

// Of a list without end only the beginning is known, which is said once, and what it lacks is not refused.
func TestListsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := make([]string, 50_000)
		for i := range names {
			names[i] = fmt.Sprintf("m%d", i)
		}
		a := newHouse("a", names...)
		core, logged := observer.New(zap.WarnLevel)
		c := started(t, models.Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{a}, Log: zap.New(core)})
		known := func() int {
			s, err := c.Settings(t.Context(), "t")
			require.NoError(t, err)
			return len(s.Catalogue.Models())
		}
		require.Equal(t, ports.MaxModels, known())
		require.Equal(t, "a:m49999", resolved(t, c, "t", "m49999"))
		time.Sleep(20 * time.Minute)
		require.Equal(t, 1, logged.Len())
		require.Equal(t, map[string]any{"provider": "a", "kept": int64(ports.MaxModels)}, logged.All()[0].ContextMap())

		a.has(append(names[:ports.MaxModels:ports.MaxModels], "m0")...)
		time.Sleep(6 * time.Minute)
		require.Equal(t, ports.MaxModels, known())
		require.Contains(t, refused(t, c, "t", "m49999"), "there is no model", "now they are all that there is")
	})
}

// endless is a provider that answers only when whoever asked has gone, after a while. It tells on ended which key that was.
func endless(asked, ended chan<- string, while time.Duration) func(context.Context, string) ([]ports.Model, error) {
	return func(ctx context.Context, key string) ([]ports.Model, error) {
		asked <- key
		<-ctx.Done()
		time.Sleep(while)
		ended <- key
		return nil, context.Cause(ctx)
	}
}

// told is what a channel holds.
func told(c <-chan string) (all []string) {
	for len(c) > 0 {
		all = append(all, <-c)
	}
	return all
}

// What is asked for with a key that was changed or taken away is not asked for any longer.
func TestQuestionsEndWithTheirKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, ended := make(chan string, 10), make(chan string, 10)
		a := newHouse("a")
		a.theirs = endless(asked, ended, 0)
		k := &keyring{keys: map[string]string{"t a": "k1"}}
		c := started(t, models.Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{a}, Credentials: k})
		ids(t, c, "t")
		require.Equal(t, []string{"k1"}, told(asked))
		synctest.Wait()
		require.Empty(t, ended)
		k.put("t a", "k2")
		ids(t, c, "t")
		synctest.Wait()
		require.Equal(t, []string{"k1"}, told(ended))
		require.Equal(t, []string{"k2"}, told(asked))
		require.Empty(t, ended)
		k.remove("t a")
		ids(t, c, "t")
		synctest.Wait()
		require.Equal(t, []string{"k2"}, told(ended))
		require.Empty(t, asked)
	})
}

// The lists of tenants that are forgotten since there are too many are not asked for any longer either.
func TestQuestionsOfForgottenTenantsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tenants, kept = 1030, 1024
		asked, ended := make(chan string, tenants), make(chan string, tenants)
		a := newHouse("a")
		a.theirs = endless(asked, ended, 0)
		k := &keyring{keys: map[string]string{}}
		c := started(t, models.Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{a}, Credentials: k})
		for i := range tenants {
			k.put(fmt.Sprintf("t%d a", i), "k")
			ids(t, c, fmt.Sprint("t", i))
		}
		synctest.Wait()
		require.Len(t, asked, tenants)
		require.Len(t, ended, tenants-kept)
	})
}

// The end waits for what is being asked, but not for what does not end.
func TestTheEndIsPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, each := range []struct{ while, patience, want time.Duration }{
			{0, time.Hour, 0},
			{200 * time.Millisecond, time.Hour, 200 * time.Millisecond},
			{200 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond},
			{time.Hour, time.Hour, time.Second},
		} {
			asked, ended := make(chan string, 1), make(chan string, 1)
			a := newHouse("a")
			a.theirs = endless(asked, ended, each.while)
			k := &keyring{keys: map[string]string{"t a": "k1"}}
			c := started(t, models.Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{a}, Credentials: k})
			ids(t, c, "t")
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), each.patience)
			c.Close(ctx)
			cancel()
			require.Equal(t, each.want, time.Since(began))
			<-ended
		}
	})
}
