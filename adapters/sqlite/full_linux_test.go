package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// A disk that is full: what was acknowledged is there, what was not is not, and when there is room again all goes on.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("keel-test", dir, "tmpfs", 0, "size=2m,mode=700"); err != nil {
		if os.Geteuid() == 0 {
			t.Fatalf("a small disk cannot be made: %v", err)
		}
		t.Skip("only root can make a small disk; TestFull runs everywhere")
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	path := filepath.Join(dir, "keel.db")
	if _, err := sqlite.Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 256<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, sqlite.Config{Path: path})
	const sessions = 4
	acknowledged := make([]int, sessions) // events
	refs := make([]domain.SessionRef, sessions)
	for i := range refs {
		refs[i] = domain.SessionRef{Tenant: "t", Session: fmt.Sprint("s", i)}
		if _, err := s.Do(t.Context(), refs[i], domain.CreateSession{At: at, StateOwner: domain.External, Request: domaintest.Payload(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	give := func(i, size int) error {
		id := fmt.Sprint("request-", acknowledged[i])
		payload := domaintest.Payload(`{"backend":"other","externalRef":` + domaintest.Quote(id) + `,"stateOwner":"external","text":"` + strings.Repeat("x", size) + `"}`)
		out, err := s.Do(t.Context(), refs[i], domain.AppendExternal{At: at, RequestID: id, Payload: payload})
		if err == nil && out.Created {
			acknowledged[i]++
		}
		return err
	}
	var group sync.WaitGroup
	for i := range refs {
		group.Go(func() {
			for range 10_000 {
				if err := give(i, 4000); err != nil {
					if !errors.Is(err, ports.ErrUnavailable) {
						t.Error(err)
					}
					return
				}
			}
			t.Error("the disk is never full")
		})
	}
	group.Wait()
	check := func() {
		t.Helper()
		for i, ref := range refs {
			events, err := s.Events(t.Context(), ref, 0, 100_000)
			if err != nil || len(events) != acknowledged[i] {
				t.Errorf("%d events are there, %d were acknowledged, error %v", len(events), acknowledged[i], err)
			}
		}
	}
	check()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for i := range refs {
		if err := give(i, 4000); err != nil {
			t.Error(err)
		}
	}
	check()
	s.Close()
	s = open(t, sqlite.Config{Path: path})
	check()
}
