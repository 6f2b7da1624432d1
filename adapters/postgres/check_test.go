package postgres_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/ports"
)

func TestOpenRefusesAServerThatLosesCommits(t *testing.T) {
	u := postgrestest.Database(t, "")
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	postgrestest.Exec(t, u, "ALTER DATABASE "+strings.TrimPrefix(parsed.Path, "/")+" SET synchronous_commit = off")
	refused(t, u, "synchronous_commit")
}

func TestOpenRefusesAnEncodingThatCannotHoldAllText(t *testing.T) {
	refused(t, postgrestest.Database(t, "TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"), "server_encoding")
}

// refused fails unless Open names the setting and the way around, and AllowUnsafe is that way.
func refused(t *testing.T, u, setting string) {
	t.Helper()
	_, err := postgres.Open(t.Context(), postgres.Config{URL: u})
	if !errors.Is(err, postgres.ErrUnsafe) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{setting, "--allow-unsafe-postgres"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %s", err, part)
		}
	}
	if err := open(t, postgres.Config{URL: u, AllowUnsafe: true}).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenReportsAnUnreachableServer(t *testing.T) {
	_, err := postgres.Open(t.Context(), postgres.Config{URL: "postgres://keel@127.0.0.1:1/keel"})
	if !errors.Is(err, ports.ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
}

// K40: behind a pooler, a mode that cannot work is refused with the setting that helps.
func TestOpenRefusesAModeThatDoesNotSuitAPooler(t *testing.T) {
	p, through := newProxy(t, postgrestest.Server(t))
	p.Pool()
	for _, mode := range execModes {
		_, err := postgres.Open(t.Context(), postgres.Config{URL: postgrestest.With(t, through, "default_query_exec_mode", mode)})
		if mode == "describe_exec" != errors.Is(err, postgres.ErrPooler) {
			t.Errorf("%s: error %v", mode, err)
		}
	}
}

// A pooler that does not know a startup parameter says so before anything else.
func TestOpenRefusesAPoolerThatRefusesIt(t *testing.T) {
	u := strictPooler(t)
	_, err := postgres.Open(t.Context(), postgres.Config{URL: u})
	if !errors.Is(err, postgres.ErrPooler) || !strings.Contains(err.Error(), "default_query_exec_mode") || !strings.Contains(err.Error(), "jit") {
		t.Errorf("error %v", err)
	}
}

// K30, K39: a bus behind a pooler says what will be missed and what helps.
func TestBusWarnsOfAPooler(t *testing.T) {
	p, through := newProxy(t, postgrestest.Server(t))
	p.Pool()
	for name, u := range map[string]string{"it passes parameters": through, "it refuses them": strictPooler(t)} {
		core, logs := observer.New(zap.WarnLevel)
		b, err := postgres.OpenBus(postgres.BusConfig{URL: u, Logger: zap.New(core)})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		warned := func() bool {
			return slices.ContainsFunc(logs.All(), func(e observer.LoggedEntry) bool {
				return strings.Contains(fmt.Sprint(e.ContextMap()["error"]), "--direct-url")
			})
		}
		for deadline := time.Now().Add(10 * time.Second); !warned(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: logged %v", name, logs.All())
			}
		}
	}
}

// strictPooler returns the URL of a pooler that refuses a startup parameter.
func strictPooler(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			back := pgproto3.NewBackend(conn, conn)
			if _, err := back.ReceiveStartupMessage(); err == nil {
				back.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: jit"})
				_ = back.Flush()
			}
			_ = conn.Close()
		}
	}()
	return "postgres://keel@" + l.Addr().String() + "/keel?sslmode=disable"
}

func TestOpenRefusesAMalformedURL(t *testing.T) {
	_, err := postgres.Open(t.Context(), postgres.Config{URL: "postgres://keel:secret@127.0.0.1/?default_query_exec_mode=nonsense"})
	if err == nil || !strings.Contains(err.Error(), "default_query_exec_mode") || strings.Contains(err.Error(), "secret") {
		t.Fatalf("error %v", err)
	}
}
