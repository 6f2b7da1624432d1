package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	fanoutReaders = 1000
	fanoutPause   = 20 * time.Millisecond // between events: 50 per second
	fanoutMost    = 200                   // events of one part: as many inputs may wait for an answer
	statsDelay    = 11 * time.Second      // after which the server's counters include what idle connections did
)

// fanout times committed events on their way to a thousand readers of one session: committed by another process than
// the one that has the readers, and by that one itself. The floor is net/http that hands on bytes.
func fanout(ctx context.Context, b *bench) ([]row, error) {
	events := min(fanoutMost, max(20, int(b.round/fanoutPause)))
	floorSent, floorKnown, err := b.floorFanout(ctx, events)
	if err != nil {
		return nil, err
	}
	f, err := b.openFanout(ctx)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if !b.short {
		time.Sleep(statsDelay)
	}
	readsBefore, err := f.reads(ctx)
	if err != nil {
		return nil, err
	}
	_, across, err := f.readers.play(ctx, events, f.head, f.append)
	if err != nil {
		return nil, err
	}
	p, err := openPoster(ctx, f.server.address())
	if err != nil {
		return nil, err
	}
	defer p.close()
	sent, known, err := f.readers.play(ctx, events, f.head+int64(events), func(_ context.Context, _ int64) (time.Time, error) {
		return p.post("/v1/sessions/"+f.run.ref.Session+"/input", jsonType, inputPayload(newID()).String())
	})
	if err != nil {
		return nil, err
	}
	rows := []row{
		delays("commit → frame, 1,000 readers at 50 events/s, across processes", across, floorKnown, 15),
		delays("the same in the process, after the acknowledgement", known, floorKnown, 5),
		delays("the same in the process, after the request was sent (commit included)", sent, floorSent, 0),
	}
	if b.short {
		return rows, nil
	}
	f.server.stop()
	readsAfter, err := f.reads(ctx)
	if err != nil {
		return rows, err
	}
	perEvent := float64(readsAfter-readsBefore) / float64(2*events)
	g := atMost(1, "≤ 1")
	return append(rows, row{
		measure: "reads of the ledger per event and process", ours: fmt.Sprintf("%.2f", perEvent), limit: "one for each reader 1,000",
		ratio: times(perEvent / fanoutReaders), goal: g.text, met: g.met(perEvent),
	}), nil
}

// delays is a row of times in milliseconds; a limit of 0 is no goal.
func delays(measure string, ours, limit []float64, most float64) row {
	p99 := quantile(ours, 0.99)
	r := row{
		measure: measure, ours: fmt.Sprintf("p50 %s, p99 %s", ms(median(ours)), ms(p99)),
		limit: fmt.Sprintf("net/http alone p50 %s, p99 %s", ms(median(limit)), ms(quantile(limit, 0.99))),
		ratio: "p99 " + times(p99/quantile(limit, 0.99)),
	}
	if most > 0 {
		g := atMost(most, fmt.Sprintf("p99 ≤ %g ms", most))
		r.goal, r.met = g.text, g.met(p99)
	}
	return r
}

// floorFanout plays events to the readers of the bare server.
func (b *bench) floorFanout(ctx context.Context, events int) (sent, known []float64, err error) {
	c, err := b.startChild(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer c.stop()
	readers, err := openReaders(ctx, c.address(), "/")
	if err != nil {
		return nil, nil, err
	}
	defer readers.close()
	p, err := openPoster(ctx, c.address())
	if err != nil {
		return nil, nil, err
	}
	defer p.close()
	return readers.play(ctx, events, 0, func(_ context.Context, id int64) (time.Time, error) {
		return p.post("/say", "text/plain", "id: "+strconv.FormatInt(id, 10)+"\ndata: "+messagePayload.String()+"\n\n")
	})
}

// fanoutRig is a server with the readers of one session whose run this process has.
type fanoutRig struct {
	url     string
	rig     *rig
	run     attempt
	head    int64
	server  *child
	readers *readers
	close   func()
}

func (b *bench) openFanout(ctx context.Context) (*fanoutRig, error) {
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	at, drop, err := keelDatabase(ctx, server)
	if err != nil {
		return nil, err
	}
	f := &fanoutRig{url: at, close: drop}
	if err := f.open(ctx, b); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// open fills in the rig; close undoes what has been opened.
func (f *fanoutRig) open(ctx context.Context, b *bench) (err error) {
	also := func(end func()) {
		before := f.close
		f.close = func() { end(); before() }
	}
	if f.rig, err = b.postgresRig(ctx, f.url); err != nil {
		return err
	}
	also(f.rig.close)
	attempts, err := f.rig.claimed(ctx, 1)
	if err != nil {
		return err
	}
	f.run, f.head = attempts[0], int64(attempts[0].input)
	if f.server, err = b.startChild(ctx, "-store", f.url, "-conns", strconv.Itoa(b.conns)); err != nil {
		return err
	}
	also(f.server.stop)
	if f.readers, err = openReaders(ctx, f.server.address(), streamPath(f.run.ref.Session, f.head)); err != nil {
		return err
	}
	also(f.readers.close)
	return nil
}

// append commits an event of this process.
func (f *fanoutRig) append(ctx context.Context, _ int64) (time.Time, error) {
	err := f.rig.append(ctx, f.run)
	return time.Now(), err
}

// reads returns how often the events were searched by seq, which only reading does.
func (f *fanoutRig) reads(ctx context.Context) (n int64, err error) {
	conn, err := pgx.Connect(ctx, f.url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'events_pkey'").Scan(&n)
	return n, err
}

// readers are streams that note when each event arrives.
type readers struct {
	streams streams
	all     sync.WaitGroup

	mu      sync.Mutex
	expect  int64 // the first id of the part under way
	arrived [][]time.Time
	missing int
	whole   chan struct{} // closed when nothing is missing
}

func openReaders(ctx context.Context, addr, path string) (*readers, error) {
	open, err := openStreams(ctx, addr, fanoutReaders, func(int) string { return path })
	if err != nil {
		return nil, err
	}
	r := &readers{streams: open}
	for _, conn := range open {
		r.all.Go(func() { _ = frameIDs(conn, r.note) })
	}
	return r, nil
}

func (r *readers) close() {
	r.streams.close()
	r.all.Wait()
}

// note is told of each frame.
func (r *readers) note(id int64) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	i := id - r.expect
	if i < 0 || i >= int64(len(r.arrived)) {
		return
	}
	r.arrived[i] = append(r.arrived[i], now)
	if r.missing--; r.missing == 0 {
		close(r.whole)
	}
}

// play makes events, one after the other with the pause between, and returns how many milliseconds each reader got each
// of them after it was asked for and after it was known to be there. after is the id before the first.
func (r *readers) play(
	ctx context.Context, events int, after int64, event func(ctx context.Context, id int64) (known time.Time, err error),
) (sinceSent, sinceKnown []float64, err error) {
	r.mu.Lock()
	r.expect, r.arrived, r.missing, r.whole = after+1, make([][]time.Time, events), events*len(r.streams), make(chan struct{})
	r.mu.Unlock()
	sent, known := make([]time.Time, events), make([]time.Time, events)
	for i := range events {
		sent[i] = time.Now()
		if known[i], err = event(ctx, r.expect+int64(i)); err != nil {
			return nil, nil, err
		}
		time.Sleep(time.Until(sent[i].Add(fanoutPause)))
	}
	select {
	case <-r.whole:
	case <-time.After(20 * time.Second):
		r.mu.Lock()
		defer r.mu.Unlock()
		return nil, nil, fmt.Errorf("%d of %d frames did not arrive within 20 s", r.missing, events*len(r.streams))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, times := range r.arrived {
		for _, at := range times {
			sinceSent = append(sinceSent, millis(at.Sub(sent[i])))
			sinceKnown = append(sinceKnown, max(0, millis(at.Sub(known[i]))))
		}
	}
	return sinceSent, sinceKnown, nil
}
