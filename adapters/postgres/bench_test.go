package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// BenchmarkAppends appends answers of 1 KB in as many sessions as stated and reports the rate beside that of a bare
// INSERT and COMMIT of the same size, taken in turns within the same run. Only the ratio means anything.
func BenchmarkAppends(b *testing.B) {
	for _, sessions := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprint(sessions), func(b *testing.B) { benchmarkAppends(b, sessions) })
	}
}

func benchmarkAppends(b *testing.B, sessions int) {
	u := migrated(b)
	postgrestest.Exec(b, u, "CREATE TABLE bare (LIKE events INCLUDING ALL)")
	conns := min(sessions, 16)
	store := open(b, postgres.Config{URL: u, MaxConns: conns})
	pool, err := pgxpool.New(b.Context(), postgrestest.With(b, u, "pool_max_conns", fmt.Sprint(conns)))
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	ledgers := claimedBy(b, store, sessions)
	text := domaintest.AssistantText(nil, fmt.Sprintf("%01000d", 0))
	postgrestest.Exec(b, u, "VACUUM ANALYZE")

	appends := func(client, n int) error {
		l := ledgers[client]
		_, err := store.Do(b.Context(), l.ref, domain.AppendAssistant{
			At: at, Run: l.run, Token: l.token, GenerationID: fmt.Sprint("g", n), Payload: text,
		})
		return err
	}
	hash := make([]byte, 32)
	inserts := func(client, n int) error {
		_, err := pool.Exec(b.Context(), "INSERT INTO bare (tenant_id, session_id, seq, kind, dedupe_key, payload, created_at, hash, run_id, epoch)"+
			" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", "t", fmt.Sprint("s", client), int64(n), "assistant.message", fmt.Sprint("g", n),
			text.String(), int64(n), hash, fmt.Sprint("r", client), int64(1))
		return err
	}
	next := make([]int, sessions)
	var appended, inserted, appending, inserting float64
	for b.Loop() {
		const slice = 300 * time.Millisecond
		n, d := drive(b, sessions, slice, func(c int) error { next[c]++; return inserts(c, next[c]) })
		inserted, inserting = inserted+n, inserting+d
		n, d = drive(b, sessions, slice, func(c int) error { next[c]++; return appends(c, next[c]) })
		appended, appending = appended+n, appending+d
	}
	b.ReportMetric(appended/appending, "appends/s")
	b.ReportMetric(inserted/inserting, "inserts/s")
	b.ReportMetric(appended/appending/(inserted/inserting), "ratio")
}

// drive lets each client work for a while and returns how much they did and how long they took.
func drive(b *testing.B, clients int, d time.Duration, work func(client int) error) (n, seconds float64) {
	ctx, cancel := context.WithTimeout(b.Context(), d)
	defer cancel()
	var done atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for c := range clients {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := work(c); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	return float64(done.Load()), time.Since(began).Seconds()
}

// claimedBy returns as many ledgers whose runs one process has claimed.
func claimedBy(t testing.TB, store *postgres.Store, sessions int) []*ledger {
	t.Helper()
	byRef := map[domain.SessionRef]*ledger{}
	ledgers := make([]*ledger, sessions)
	for i := range ledgers {
		ledgers[i] = created(t, store, domain.SessionRef{Tenant: "t", Session: fmt.Sprint("s", i)})
		ledgers[i].must(ledgers[i].input("first"))
		byRef[ledgers[i].ref] = ledgers[i]
	}
	if err := store.Processes().Register(t.Context(), "p", "here", time.Hour); err != nil {
		t.Fatal(err)
	}
	claims, err := store.Runs().Claim(t.Context(), ports.ClaimRequest{Process: "p", Max: sessions})
	if err != nil || len(claims) != sessions {
		t.Fatalf("%d claims, error %v", len(claims), err)
	}
	for _, c := range claims {
		l := byRef[c.Session.Ref]
		l.run, l.token = c.Run.ID, domain.Token{Process: "p", Epoch: c.Session.Epoch}
	}
	return ledgers
}
