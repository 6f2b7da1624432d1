package postgres_test

import (
	"errors"
	"testing"

	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
)

// newProxy is postgrestest.NewProxy for a store that sends statements as text.
func newProxy(t testing.TB, u string) (p *postgrestest.Proxy, through string) {
	t.Helper()
	p, through = postgrestest.NewProxy(t, u)
	return p, postgrestest.With(t, through, "default_query_exec_mode", "exec")
}

// second returns the error of a call with a result.
func second[T any](_ T, err error) error { return err }

func wantRefusal(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}
