package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// names lists the files in dir.
func names(t *testing.T, dir string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func TestFilesAreTheirOwnersOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keel.db")
	if _, err := sqlite.Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s := open(t, sqlite.Config{Path: path})
	if _, err := s.Do(t.Context(), domain.SessionRef{Tenant: "t", Session: "s"}, domain.CreateSession{At: at}); err != nil {
		t.Fatal(err)
	}
	found := names(t, dir)
	if !slices.Equal(found, []string{"keel.db", "keel.db-shm", "keel.db-wal", "keel.db.lock"}) {
		t.Errorf("files %v", found)
	}
	for _, name := range found {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, error %v", name, info.Mode(), err)
		}
	}
}

func TestStatusChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keel.db")
	if _, err := sqlite.Status(t.Context(), path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if found := names(t, dir); len(found) > 0 {
		t.Errorf("files %v", found)
	}
	if err := os.WriteFile(path, []byte("not a database, but long enough to have a header of its own ......................................"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Status(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if found := names(t, dir); len(found) != 1 {
		t.Errorf("files %v", found)
	}
}

func TestStatusBesideAServer(t *testing.T) {
	path := migrated(t)
	open(t, sqlite.Config{Path: path})
	status, err := sqlite.Status(t.Context(), path)
	if err != nil || len(status.Migrations) == 0 || status.Migrations[0].AppliedAt.IsZero() {
		t.Errorf("status %v, error %v", status, err)
	}
}

func TestDirectoryIsNoDatabase(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keel.db")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, migrate := sqlite.Migrate(t.Context(), path)
	_, status := sqlite.Status(t.Context(), path)
	_, serve := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	_, read := sqlite.OpenReadOnly(t.Context(), sqlite.Config{Path: path})
	for _, err := range []error{migrate, status, serve, read} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v", err)
		}
	}
	if found := names(t, dir); len(found) != 1 {
		t.Errorf("files %v", found)
	}
}

// A restarted server need not wait until the lease of its predecessor has run out.
func TestPredecessorIsDead(t *testing.T) {
	path := migrated(t)
	first := open(t, sqlite.Config{Path: path})
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	for _, cmd := range []domain.Command{
		domain.CreateSession{At: at, Request: domaintest.Payload(`{}`)},
		domain.SubmitInput{At: at, RequestID: "r", Payload: domaintest.User("r", "text"), NewRun: "run"},
	} {
		if _, err := first.Do(t.Context(), ref, cmd); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Processes().Register(t.Context(), "first", "", time.Hour); err != nil {
		t.Fatal(err)
	}
	if claims, err := first.Runs().Claim(t.Context(), ports.ClaimRequest{Process: "first", Max: 1}); err != nil || len(claims) != 1 {
		t.Fatalf("claims %v, error %v", claims, err)
	}
	first.Close()

	second := open(t, sqlite.Config{Path: path})
	if _, err := second.Processes().Renew(t.Context(), "first", time.Hour); !errors.Is(err, ports.ErrProcessDead) {
		t.Errorf("error %v", err)
	}
	orphans, _, err := second.Processes().Bury(t.Context())
	if err != nil || !slices.Equal(orphans, []ports.RunRef{{Ref: ref, Run: "run"}}) {
		t.Fatalf("orphans %v, error %v", orphans, err)
	}
	out, err := second.Do(t.Context(), ref, domain.Rescue{Run: "run"})
	if err != nil || out.Run.Status != domain.StatusPending {
		t.Errorf("outcome %+v, error %v", out, err)
	}
}
