package sqlite_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

func TestMigrateAppliesEachMigrationOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keel.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := sqlite.Status(t.Context(), path)
	if err != nil || len(before.Migrations) == 0 || !before.Migrations[0].AppliedAt.IsZero() {
		t.Fatalf("status of an empty database: %v, error %v", before, err)
	}
	applied, err := sqlite.Migrate(t.Context(), path)
	if err != nil || len(applied.Migrations) != len(before.Migrations) {
		t.Fatalf("applied %v of %v, error %v", applied, before, err)
	}
	again, err := sqlite.Migrate(t.Context(), path)
	if err != nil || len(again.Migrations) != 0 {
		t.Fatalf("applied again: %v, error %v", again, err)
	}
	after, err := sqlite.Status(t.Context(), path)
	if err != nil || len(after.Migrations) != len(before.Migrations) || after.Migrations[0].AppliedAt.IsZero() {
		t.Fatalf("status afterwards: %v, error %v", after, err)
	}
}

func TestOneServerAtATime(t *testing.T) {
	path := migrated(t)
	first := open(t, sqlite.Config{Path: path})
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("error %v", err)
	}
	if _, err := sqlite.Migrate(t.Context(), path); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("error %v", err)
	}
	first.Close()
	open(t, sqlite.Config{Path: path}).Close()
}

// A process that was killed leaves no lock behind, and what it committed is there.
func TestKilledServer(t *testing.T) {
	path := os.Getenv("KEEL_TEST_SERVE")
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	create := domain.CreateSession{At: at, Request: domaintest.Payload(`{}`)}
	if path != "" { // the process to be killed
		s := open(t, sqlite.Config{Path: path})
		if _, err := s.Do(t.Context(), ref, create); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("committed\n")
		select {}
	}
	path = migrated(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledServer$")
	cmd.Env = append(os.Environ(), "KEEL_TEST_SERVE="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("error %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s := open(t, sqlite.Config{Path: path})
	if out, err := s.Do(t.Context(), ref, create); err != nil || out.Created {
		t.Errorf("outcome %+v, error %v", out, err)
	}
}

func TestOpenReadOnly(t *testing.T) {
	path := migrated(t)
	s := open(t, sqlite.Config{Path: path})
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	create := domain.CreateSession{At: at, Request: domaintest.Payload(`{}`)}
	if _, err := s.Do(t.Context(), ref, create); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		r, err := sqlite.OpenReadOnly(t.Context(), sqlite.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if row, _, err := r.Sessions().Get(t.Context(), ref); err != nil || row.Version != 1 {
			t.Errorf("session %+v, error %v", row, err)
		}
		_, claimErr := r.Runs().Claim(t.Context(), ports.ClaimRequest{Process: "p", Max: 1})
		_, doErr := r.Do(t.Context(), ref, create)
		for _, err := range []error{doErr, claimErr, r.Processes().Register(t.Context(), "p", "", time.Minute)} {
			if !errors.Is(err, sqlite.ErrReadOnly) {
				t.Errorf("error %v", err)
			}
		}
	}
	check()
	s.Close()
	check()
}

func TestOpenReportsAMissingFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "nowhere", "keel.db"), filepath.Join(dir, "keel.db")} {
		if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); err == nil {
			t.Error("no error")
		}
		if _, err := sqlite.OpenReadOnly(t.Context(), sqlite.Config{Path: path}); !errors.Is(err, ports.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a database was made: %v", err)
		}
	}
}

func TestPathsWithSpecialCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c#d%20e&f;g", "ké el.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	open(t, sqlite.Config{Path: path})
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestClosedStore(t *testing.T) {
	s := open(t, sqlite.Config{Path: migrated(t)})
	s.Close()
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	if _, err := s.Do(t.Context(), ref, domain.CreateSession{At: at}); !errors.Is(err, ports.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if _, err := s.Events(t.Context(), ref, 0, 1); err == nil {
		t.Error("no error")
	}
}

func TestEndedRequestWritesNothing(t *testing.T) {
	s := open(t, sqlite.Config{Path: migrated(t)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	if _, err := s.Do(ctx, ref, domain.CreateSession{At: at}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, _, err := s.Sessions().Get(t.Context(), ref); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// The log is copied into the database in the background, so it does not grow with every commit.
func TestLogIsCopiedInTheBackground(t *testing.T) {
	path := migrated(t)
	s := open(t, sqlite.Config{Path: path})
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	if _, err := s.Do(t.Context(), ref, domain.CreateSession{At: at}); err != nil {
		t.Fatal(err)
	}
	before := changed(t, path)
	for i := 0; changed(t, path).Equal(before); i++ {
		if i > 5_000 {
			t.Fatal("the log was never copied")
		}
		title := strings.Repeat("x", i%10)
		if _, err := s.Do(t.Context(), ref, domain.PatchSession{Title: &title}); err != nil {
			t.Fatal(err)
		}
	}
}

// changed returns when the file was written last.
func changed(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// A database has one lock, whatever link leads to it.
func TestLinksLeadToTheSameLock(t *testing.T) {
	path := migrated(t)
	open(t, sqlite.Config{Path: path})
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: link}); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("error %v", err)
	}
}
