package postgres

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A pool whose connections all turn out to be dead has lost its server, which is worth another try.
func TestPoolOfDeadConnectionsIsUnreachable(t *testing.T) {
	u := os.Getenv("KEEL_TEST_POSTGRES_URL")
	if u == "" {
		t.Fatal("KEEL_TEST_POSTGRES_URL is not set: `make test` (or scripts/with-postgres.sh COMMAND) provides a server")
	}
	pc, err := poolConfig(Config{URL: u, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	pc.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return false, nil }
	pool, err := pgxpool.NewWithConfig(t.Context(), pc)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err == nil {
		conn.Release()
		t.Fatal("a dead connection was given")
	}
	if f := fateOfAcquire(t.Context(), err); f != unreachable {
		t.Errorf("fate %v of %v", f, err)
	}
	pool.Close()
	_, err = pool.Acquire(t.Context())
	if f := fateOfAcquire(t.Context(), err); f != final {
		t.Errorf("fate %v of %v", f, err)
	}
}
