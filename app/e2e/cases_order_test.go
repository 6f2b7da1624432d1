package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	orderEvents  = flag.Int("order-events", 400, "TestK38ReadersMissNothing: how many events the ledger gets at least; the case says 10000")
	orderReaders = flag.Int("order-readers", 20, "TestK38ReadersMissNothing: how many read meanwhile, as the case says")
)

// K38, the load: writers, an owner that answers them, commits that are rolled back, and readers that reconnect
// at random.
func TestK38ReadersMissNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil, "--provider", "fake")
		p.create(`{"id":"s1"}`)
		if strings.HasPrefix(store, "postgres") {
			admin(t, store, `CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN
					IF random() < 0.01 THEN RAISE EXCEPTION 'once more' USING ERRCODE = '40001'; END IF;
					RETURN NEW;
				END $$`, "CREATE TRIGGER spoil AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION spoil()")
		}
		const writers = 8
		var writing, reading sync.WaitGroup
		var head atomic.Int64
		for w := range writers {
			writing.Go(func() { p.writes("s1", w, *orderEvents) })
		}
		seen, total := make([][]string, *orderReaders), make(chan struct{})
		for r := range seen {
			reading.Go(func() { seen[r] = p.readsOn("s1", total, &head) })
		}
		writing.Wait()
		events := p.rested("s1")
		require.GreaterOrEqual(t, len(events), *orderEvents)
		head.Store(int64(len(events)))
		close(total)
		reading.Wait()
		want := make([]string, len(events))
		for i := range want {
			want[i] = fmt.Sprint(i + 1)
		}
		for _, got := range seen {
			require.Equal(t, want, got)
		}
		story(t, events)
		presentsAll(t, events)
		p.stop()
	})
}

// writes submits inputs, every fourth with another content under the key of the one before it, until the ledger is long
// enough.
func (p *process) writes(session string, writer, enough int) {
	p.t.Helper()
	for i := 0; ; i++ {
		body := fmt.Sprintf(`{"text":"x","requestId":"%d-%d"}`, writer, i)
		if i%4 == 3 {
			body = fmt.Sprintf(`{"text":"other","requestId":"%d-%d"}`, writer, i-1) // refused
		}
		a, err := p.try("POST", "/v1/sessions/"+session+"/input", body)
		switch {
		case err != nil:
			p.t.Error(err)
			return
		case a.status == http.StatusTooManyRequests:
			time.Sleep(10 * time.Millisecond)
			i-- // it was not taken
		case a.status != http.StatusCreated && a.status != http.StatusConflict:
			p.t.Error(a.body)
			return
		}
		var told struct{ Seq int }
		if json.Unmarshal([]byte(a.body), &told) == nil && told.Seq >= enough {
			return
		}
	}
}

// readsOn follows a session over streams that it leaves at random, and returns the ids of all frames once it has those up
// to head and total is closed.
func (p *process) readsOn(session string, total <-chan struct{}, head *atomic.Int64) (seen []string) {
	for {
		ctx, leave := context.WithCancel(p.t.Context())
		frames := p.stream(ctx, session, fmt.Sprintf("after=%d", len(seen)))
		quiet := time.After(50 * time.Millisecond)
		for n := 1 + rand.IntN(200); n > 0; n-- {
			select {
			case f := <-frames:
				seen = append(seen, f.LastEventID)
			case <-quiet:
				n = 0
			}
		}
		leave()
		select {
		case <-total:
			if int64(len(seen)) == head.Load() {
				return seen
			}
		default:
		}
	}
}
