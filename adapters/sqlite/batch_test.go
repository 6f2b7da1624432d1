package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func neighbour(do func(tx tx) (bool, error)) *job {
	return &job{ctx: context.Background(), do: do, done: make(chan struct{})}
}

func refuse(tx) (bool, error) { return false, domain.ErrNotFound }

// insertItem returns what inserts a row into the table of newItems.
func insertItem(id int) func(tx tx) (bool, error) {
	return func(tx tx) (bool, error) {
		_, err := tx.exec("INSERT INTO items VALUES (?, NULL, NULL)", id)
		return true, err
	}
}

// newItems returns a store with an extra table, one of whose columns is looked at by COMMIT alone.
func newItems(t *testing.T) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keel.db")
	if _, err := Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, text := range []string{
		"PRAGMA foreign_keys = 1",
		"CREATE TABLE items (id INTEGER PRIMARY KEY, other INTEGER REFERENCES items DEFERRABLE INITIALLY DEFERRED, text TEXT)",
	} {
		if _, err := s.write.conn.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func items(t *testing.T, s *Store) (ids []int) {
	t.Helper()
	rows, err := s.read.QueryContext(t.Context(), "SELECT id FROM items ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		id := 0
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// together gives jobs to s in their order, so that they meet in one batch, and returns their errors.
func together(t *testing.T, s *Store, jobs ...*job) []error {
	t.Helper()
	release := Hold(s)
	results := make([]chan error, len(jobs))
	for i, j := range jobs {
		results[i] = make(chan error, 1)
		go func() {
			defer func() {
				if p := recover(); p != nil {
					results[i] <- fmt.Errorf("panic: %v", p)
				}
			}()
			results[i] <- s.write.do(j)
		}()
		await(t, func() bool { return Waiting(s) == i+1 })
	}
	release()
	errs := make([]error, len(jobs))
	for i := range jobs {
		errs[i] = <-results[i]
	}
	return errs
}

func await(t *testing.T, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !reached(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatal("never reached")
		}
	}
}

func TestWaitingJobsShareACommit(t *testing.T) {
	s := newItems(t)
	var jobs []*job
	var told []int
	for i := range maxBatch + 10 {
		j := neighbour(insertItem(i))
		j.tell = func() { told = append(told, i) }
		jobs = append(jobs, j)
	}
	before := Commits(s)
	for i, err := range together(t, s, jobs...) {
		if err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if n := Commits(s) - before; n != 2 {
		t.Errorf("%d commits for %d jobs", n, len(jobs))
	}
	if found := items(t, s); len(found) != len(jobs) || !slices.Equal(found, told) {
		t.Errorf("items %v, told %v", found, told)
	}
}

// Whatever befalls one job, its neighbours do not notice.
func TestFaultsStayWithTheirJob(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(tx tx) (bool, error)
		says string
	}{
		"refused": {refuse, domain.ErrNotFound.Error()},
		"fault of a statement": {func(tx tx) (bool, error) {
			_, err := tx.exec("INSERT INTO items VALUES (1, NULL, NULL)")
			return true, err
		}, "UNIQUE"},
		"fault after a write": {func(tx tx) (bool, error) {
			_, err := tx.exec("INSERT INTO items VALUES (100, NULL, NULL)")
			return true, errors.Join(err, errors.New("a fault"))
		}, "a fault"},
		"refused after a write": {func(tx tx) (bool, error) {
			_, err := tx.exec("INSERT INTO items VALUES (100, NULL, NULL)")
			return false, errors.Join(err, domain.ErrNotFound)
		}, domain.ErrNotFound.Error()},
		"fault of the commit": {func(tx tx) (bool, error) {
			_, err := tx.exec("INSERT INTO items VALUES (100, 999, NULL)")
			return true, err
		}, "FOREIGN KEY"},
		"panic": {func(tx tx) (bool, error) {
			_, err := tx.exec("INSERT INTO items VALUES (100, NULL, NULL)")
			panic(fmt.Sprint("a mistake ", err))
		}, "panic: a mistake"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newItems(t)
			bad, told := neighbour(c.do), false
			bad.tell = func() { told = true }
			errs := together(t, s, neighbour(insertItem(1)), bad, neighbour(insertItem(2)), neighbour(refuse), neighbour(insertItem(3)))
			if err := errs[1]; err == nil || !strings.Contains(err.Error(), c.says) || told {
				t.Errorf("error %v, told %t", err, told)
			}
			if errs[0] != nil || errs[2] != nil || !errors.Is(errs[3], domain.ErrNotFound) || errs[4] != nil {
				t.Errorf("errors %v", errs)
			}
			if found := items(t, s); !slices.Equal(found, []int{1, 2, 3}) {
				t.Errorf("items %v", found)
			}
		})
	}
}

func TestPanicOfANotifier(t *testing.T) {
	s := newItems(t)
	bad := neighbour(insertItem(1))
	bad.tell = func() { panic("a mistake") }
	errs := together(t, s, bad, neighbour(insertItem(2)))
	if errs[0] == nil || errs[0].Error() != "panic: a mistake" || errs[1] != nil {
		t.Errorf("errors %v", errs)
	}
	if err := s.write.do(neighbour(insertItem(3))); err != nil {
		t.Error(err)
	}
	if found := items(t, s); !slices.Equal(found, []int{1, 2, 3}) {
		t.Errorf("items %v", found)
	}
}

// A caller that has gone before its turn is passed over, one that goes later does not undo anything.
func TestCallersThatLeave(t *testing.T) {
	s := newItems(t)
	ctx, cancel := context.WithCancel(t.Context())
	gone, late := neighbour(insertItem(1)), neighbour(insertItem(3))
	gone.ctx, late.ctx = ctx, ctx
	left := make(chan error, 1)
	release := Hold(s)
	go func() { left <- s.write.do(gone) }()
	await(t, func() bool { return Waiting(s) == 1 })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) || Waiting(s) != 0 {
		t.Errorf("error %v, %d wait", err, Waiting(s))
	}
	release()
	ctx, cancel = context.WithCancel(t.Context())
	late.ctx = ctx
	ends := neighbour(func(tx tx) (bool, error) { cancel(); return insertItem(2)(tx) })
	ends.ctx = ctx
	if err := s.write.do(ends); err != nil {
		t.Error(err)
	}
	if err := s.write.do(late); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if found := items(t, s); !slices.Equal(found, []int{2}) {
		t.Errorf("items %v", found)
	}
}

func TestCloseRefusesThoseThatWait(t *testing.T) {
	s := newItems(t)
	release := Hold(s)
	errs := make(chan error)
	for i := range 8 {
		go func() { errs <- s.write.do(neighbour(insertItem(i))) }()
	}
	await(t, func() bool { return Waiting(s) == 8 })
	go release()
	s.Close()
	for range 8 {
		if err := translate(t.Context(), <-errs); err != nil && !errors.Is(err, ports.ErrUnavailable) {
			t.Error(err)
		}
	}
}

// When there is no room, nothing is acknowledged; when there is room again, all goes on.
func TestFull(t *testing.T) {
	s := newItems(t)
	limit := func(pages int) {
		t.Helper()
		defer Hold(s)()
		if _, err := s.write.conn.ExecContext(t.Context(), fmt.Sprint("PRAGMA max_page_count = ", pages)); err != nil {
			t.Fatal(err)
		}
	}
	large := func(id int) *job {
		return neighbour(func(tx tx) (bool, error) {
			_, err := tx.exec("INSERT INTO items VALUES (?, NULL, ?)", id, strings.Repeat("x", 100_000))
			return true, err
		})
	}
	limit(1) // means: as many as there are
	errs := together(t, s, neighbour(insertItem(1)), large(2), neighbour(insertItem(3)))
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("small ones: %v", errs)
	}
	if err := translate(t.Context(), errs[1]); !errors.Is(err, ports.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	limit(1 << 30)
	if errs := together(t, s, large(4), large(5)); errs[0] != nil || errs[1] != nil {
		t.Errorf("errors %v", errs)
	}
	if found := items(t, s); !slices.Equal(found, []int{1, 3, 4, 5}) {
		t.Errorf("items %v", found)
	}
}

func TestKeptIsBounded(t *testing.T) {
	s := newItems(t)
	for i := range maxKept + 50 {
		ref := domain.SessionRef{Tenant: "t", Session: fmt.Sprint(i)}
		s.write.kept.put(ref, keptRows{session: rowOf(ref, "")})
	}
	if n := len(s.write.kept); n != maxKept {
		t.Errorf("%d sessions are kept", n)
	}
	ref := domain.SessionRef{Tenant: "t", Session: "large"}
	s.write.kept.put(ref, keptRows{session: rowOf(ref, "")})
	s.write.kept.put(ref, keptRows{session: rowOf(ref, strings.Repeat("x", maxKeptText+1))})
	if _, found := s.write.kept[ref]; found {
		t.Error("a large session is kept")
	}
}

func rowOf(ref domain.SessionRef, system string) *sqlstore.SessionRow {
	return &sqlstore.SessionRow{TenantID: ref.Tenant, SessionID: ref.Session, System: system}
}
