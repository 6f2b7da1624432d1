package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// fate is what an error says about the statement that it answers.
type fate int

const (
	// final: no retry mends it. A refusal of the domain, an ended context, a fault of the statement.
	final fate = iota
	// again: nothing was written and the next try may succeed.
	again
	// moved: nothing was written; the session changed since it was read.
	moved
	// stale: nothing was written; a prepared statement no longer fits the schema.
	stale
	// unreachable: nothing was written; the server cannot be reached or takes no writes.
	unreachable
	// lost: the connection broke, so what was sent may have been carried out.
	lost
)

// fateOf is the one reading of driver errors. closed tells whether the connection was unusable after the error.
func fateOf(err error, closed bool) fate {
	var refusal *domain.Error
	var server *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &refusal), errors.Is(err, ports.ErrProcessDead), errors.Is(err, ports.ErrUnavailable):
		return final
	case errors.Is(err, errMoved):
		return moved
	case errors.As(err, &server):
		return fateOfCode(server.Code)
	case errors.As(err, &connect), pgconn.SafeToRetry(err):
		return unreachable
	case closed:
		return lost
	}
	return final
}

// fateOfAcquire is fateOf for a pool that gave no connection. That all it had were dead is an error without a name.
func fateOfAcquire(ctx context.Context, err error) fate {
	f := fateOf(err, false)
	var server *pgconn.PgError
	if f == final && ctx.Err() == nil && !errors.As(err, &server) && !errors.Is(err, puddle.ErrClosedPool) {
		return unreachable
	}
	return f
}

func readOnly(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "25006"
}

// duplicate reports whether a unique key is taken, which passes when another write had it first, but else does not.
func duplicate(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "23505"
}

// fateOfCode reads an SQLSTATE.
func fateOfCode(code string) fate {
	switch code {
	case "40001", "40P01", "55P03", "23505": // serialization, deadlock, lock not available, unique violation
		return again
	case "0A000", "26000": // cached plan must not change result type, unknown prepared statement
		return stale
	case "57P01", "57P02", "57P05", "25P03": // terminated while it worked
		return lost
	case "57P03", "25006", "57014": // starting up or shutting down, read-only, out of time
		return unreachable
	}
	switch {
	case code == "08P01": // protocol violation: a pooler that does not suit
		return final
	case strings.HasPrefix(code, "08"): // connection exception
		return lost
	case strings.HasPrefix(code, "53"): // out of connections, disk or memory
		return unreachable
	}
	return final
}

// translate returns err as the ports promise it, once no retry is left.
func translate(ctx context.Context, err error, f fate) error {
	var refusal *domain.Error
	switch {
	case err == nil, errors.As(err, &refusal), errors.Is(err, ports.ErrProcessDead), errors.Is(err, ports.ErrUnavailable):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("postgres: %w", context.Canceled)
	case f == unreachable, f == lost, f == moved, f == again && !duplicate(err), ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, puddle.ErrClosedPool):
		return fmt.Errorf("%w: postgres: %w", ports.ErrUnavailable, err)
	}
	return fmt.Errorf("postgres: %w", err)
}
