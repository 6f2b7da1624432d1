package models

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/adapters/providers/fake"
	"github.com/keel-agent/keel/ports"
)

// oneKey is the credential of the tenant "keyed".
type oneKey struct{}

func (oneKey) Credential(_ context.Context, tenant, _ string) (ports.Confidential, error) {
	if tenant == "keyed" {
		return ports.NewConfidential("key"), nil
	}
	return ports.Confidential{}, nil
}

// While the catalogue of a tenant is made, nobody else waits.
func TestCatalogueInTheMaking(t *testing.T) {
	p, err := fake.New(fake.Config{})
	require.NoError(t, err)
	c := New(Config{Settings: memory.New(memory.Config{}).Settings(), Providers: []ports.Provider{p}, Credentials: oneKey{}})
	defer c.Close(t.Context())
	_, err = c.Settings(t.Context(), "keyed")
	require.NoError(t, err)
	o := c.owns["keyed"]
	o.making.Lock() // as if it took long
	made := make(chan error, 1)
	go func() {
		_, err := c.Settings(t.Context(), "keyed")
		made <- err
	}()
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "(*Catalogues).baseOf")
	}, 5*time.Second, time.Millisecond)
	others := make(chan error, 1)
	go func() {
		_, err := c.Settings(t.Context(), "other")
		others <- err
	}()
	select {
	case err := <-others:
		require.NoError(t, err)
	case <-time.After(5 * time.Second):
		t.Error("another tenant waits")
	}
	o.making.Unlock()
	require.NoError(t, <-made)
}
