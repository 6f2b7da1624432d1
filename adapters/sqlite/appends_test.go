package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// Fenced appends of 1 KiB, in turn with bare inserts of the same rows, one commit each: by one connection, and by a
// pool that meets at SQLite's lock. All run in short rounds one after the other, for only the ratios mean something.
func BenchmarkAppends(b *testing.B) {
	for _, sessions := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d", sessions), func(b *testing.B) {
			keel, one, pool := newAppends(b, sessions), newInserts(b, 1), newInserts(b, sessions)
			var took [3]time.Duration
			b.ResetTimer()
			for left := b.N; left > 0; left -= 4 * sessions {
				for i, f := range []func(session int){keel.append, one.insert, pool.insert} {
					took[i] += atOnce(sessions, min(left, 4*sessions), f)
				}
			}
			b.ReportMetric(float64(took[1])/float64(took[0]), "×one-writer")
			b.ReportMetric(float64(took[2])/float64(took[0]), "×pool")
			b.ReportMetric(float64(b.N)/took[0].Seconds(), "appends/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// atOnce calls f n times, from a goroutine for each session.
func atOnce(sessions, n int, f func(session int)) time.Duration {
	var next atomic.Int64
	var group sync.WaitGroup
	begin := time.Now()
	for s := range sessions {
		group.Go(func() {
			for next.Add(1) <= int64(n) {
				f(s)
			}
		})
	}
	group.Wait()
	return time.Since(begin)
}

var kibibyte = strings.Repeat("0123456789abcdef", 64)

// appends is one claimed run for each session.
type appends struct {
	tb     testing.TB
	store  *sqlite.Store
	claims []ports.Claim
	ids    atomic.Int64
}

func newAppends(tb testing.TB, sessions int) *appends {
	a := &appends{tb: tb, store: open(tb, sqlite.Config{Path: migrated(tb)})}
	for i := range sessions {
		ref := domain.SessionRef{Tenant: "t", Session: fmt.Sprint("session-", i)}
		id := fmt.Sprint("run-", i)
		for _, cmd := range []domain.Command{
			domain.CreateSession{At: at, Request: domaintest.Payload(`{}`)},
			domain.SubmitInput{At: at, RequestID: "r", Payload: domaintest.User("r", "text"), NewRun: id},
		} {
			if _, err := a.store.Do(tb.Context(), ref, cmd); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := a.store.Processes().Register(tb.Context(), "p", "", time.Hour); err != nil {
		tb.Fatal(err)
	}
	var err error
	a.claims, err = a.store.Runs().Claim(tb.Context(), ports.ClaimRequest{Process: "p", Max: sessions})
	if err != nil || len(a.claims) != sessions {
		tb.Fatalf("%d claims, error %v", len(a.claims), err)
	}
	return a
}

func (a *appends) append(session int) {
	c := &a.claims[session]
	_, err := a.store.Do(a.tb.Context(), c.Session.Ref, domain.AppendAssistant{
		At: at, Run: c.Run.ID, Token: domain.Token{Process: "p", Epoch: c.Run.Epoch},
		GenerationID: fmt.Sprint("generation-", a.ids.Add(1)), Payload: domaintest.AssistantText(nil, kibibyte),
	})
	if err != nil {
		a.tb.Error(err)
	}
}

// inserts writes rows like those of the appends.
type inserts struct {
	tb   testing.TB
	stmt *sql.Stmt
	turn *sync.Mutex // of the one writer; a pool has none
	ids  atomic.Int64
}

func newInserts(tb testing.TB, conns int) *inserts {
	db, err := sql.Open("sqlite", "file:"+migrated(tb)+
		"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	stmt, err := db.PrepareContext(tb.Context(), "INSERT INTO events (tenant_id, session_id, seq, kind, dedupe_key, payload,"+
		" created_at, hash, run_id, epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = stmt.Close() })
	i := &inserts{tb: tb, stmt: stmt}
	if conns == 1 {
		i.turn = new(sync.Mutex)
	}
	return i
}

func (i *inserts) insert(session int) {
	id := i.ids.Add(1)
	row := []any{
		"t", fmt.Sprint("session-", session), id, "assistant.message", fmt.Sprint("generationId:generation-", id),
		domaintest.AssistantText(nil, kibibyte).String(), at.UnixMilli(), make([]byte, 32), fmt.Sprint("run-", session), 1,
	}
	if i.turn != nil {
		i.turn.Lock()
		defer i.turn.Unlock()
	}
	if _, err := i.stmt.ExecContext(context.Background(), row...); err != nil {
		i.tb.Error(err)
	}
}
