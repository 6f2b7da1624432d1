package postgres_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/ports"
)

func TestOpenRefusesAServerThatLosesCommits(t *testing.T) {
	u := freshDatabase(t, "")
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	admin(t, u, "ALTER DATABASE "+strings.TrimPrefix(parsed.Path, "/")+" SET synchronous_commit = off")
	refused(t, u, "synchronous_commit")
}

func TestOpenRefusesAnEncodingThatCannotHoldAllText(t *testing.T) {
	refused(t, freshDatabase(t, "TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"), "server_encoding")
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

func TestOpenRefusesAMalformedURL(t *testing.T) {
	_, err := postgres.Open(t.Context(), postgres.Config{URL: "postgres://keel:secret@127.0.0.1/?default_query_exec_mode=nonsense"})
	if err == nil || !strings.Contains(err.Error(), "default_query_exec_mode") || strings.Contains(err.Error(), "secret") {
		t.Fatalf("error %v", err)
	}
}
