package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
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

// stepOf is the context key of the number of a step.
type stepOf struct{}

// Whatever many do at once has some order: the World, given the same in that order, gives the same answers and ends in
// the same state; and in that order the Notifier hears of it.
func TestConcurrentStepsHaveAnOrder(t *testing.T) {
	const workers, length = 12, 400
	for seed := range uint64(6) {
		g := domaintest.NewGenerator(domaintest.Seeded(1000+seed), domaintest.Options{Sessions: 4, External: true, Budget: 3})
		for range length {
			if err := g.Step(); err != nil {
				t.Fatal(err)
			}
		}
		steps := slices.DeleteFunc(g.Steps, func(s domaintest.Step) bool { // a World does not survive draining a stranger
			_, drain := s.(domaintest.Drain)
			return drain
		})

		now, told := &clock{now: domaintest.Epoch}, &heard{}
		store := open(t, sqlite.Config{Path: migrated(t), Now: now.time, Notifier: told})
		var order []int
		sqlite.Order(store, func(ctx context.Context) {
			if i, ok := ctx.Value(stepOf{}).(int); ok {
				order = append(order, i)
			}
		})
		replies := make([]domaintest.Reply, len(steps))
		var next atomic.Int64
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(steps); i = int(next.Add(1)) - 1 {
					replies[i] = play(context.WithValue(t.Context(), stepOf{}, i), store, steps[i])
				}
			})
		}
		group.Wait()
		if len(order) != len(steps) {
			t.Fatalf("seed %d: %d of %d steps were done", seed, len(order), len(steps))
		}

		t.Logf("seed %d: %d steps, %d commits", seed, len(steps), sqlite.Commits(store))
		world := domaintest.NewWorld()
		for _, i := range order {
			want := world.Do(steps[i])
			if !same(replies[i], want) {
				t.Fatalf("seed %d: %s\ngave %s\ninstead of %s", seed, domaintest.Describe(steps[i]), show(replies[i]), show(want))
			}
		}
		if err := world.Check(); err != nil {
			t.Fatal(err)
		}
		for _, ref := range world.Refs() {
			l := world.Ledgers[ref]
			row, run, err := store.Sessions().Get(t.Context(), ref)
			if err != nil || fmt.Sprintf("%+v", row) != fmt.Sprintf("%+v", l.Row) {
				t.Errorf("seed %d: session %+v\ninstead of %+v, error %v", seed, row, l.Row, err)
			}
			if want, active := l.Runs[l.Row.ActiveRun]; active && !reflect.DeepEqual(*run, want) {
				t.Errorf("seed %d: run %+v\ninstead of %+v", seed, *run, want)
			}
			events, err := store.Events(t.Context(), ref, 0, length)
			if err != nil || len(events) != len(l.Events) || len(events) > 0 && fmt.Sprintf("%+v", events) != fmt.Sprintf("%+v", l.Events) {
				t.Errorf("seed %d: events %v\ninstead of %v, error %v", seed, events, l.Events, err)
			}
			for i, seq := range told.seqs[ref] {
				if seq != domain.Seq(i+1) {
					t.Errorf("seed %d: event %d was told of as number %d", seed, seq, i+1)
				}
			}
			if len(told.seqs[ref]) != len(events) {
				t.Errorf("seed %d: %d of %d events were told of", seed, len(told.seqs[ref]), len(events))
			}
		}
		store.Close()
	}
}

// heard is a Notifier that keeps the seqs in the order in which it is told.
type heard struct {
	mu   sync.Mutex
	seqs map[domain.SessionRef][]domain.Seq
}

func (h *heard) Committed(c ports.Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seqs == nil {
		h.seqs = map[domain.SessionRef][]domain.Seq{}
	}
	for _, e := range c.Events {
		h.seqs[c.Ref] = append(h.seqs[c.Ref], e.Seq)
	}
}

func play(ctx context.Context, s *sqlite.Store, step domaintest.Step) (r domaintest.Reply) {
	switch c := step.(type) {
	case domaintest.Do:
		r.Outcome, r.Err = s.Do(ctx, c.Ref, c.Cmd)
	case domaintest.Claim:
		var claims []ports.Claim
		claims, r.Err = s.Runs().Claim(ctx, ports.ClaimRequest{Process: c.Process, Max: 100, Budget: c.Budget})
		for _, claim := range claims {
			r.Claims = append(r.Claims, domain.Outcome{Session: claim.Session, Run: &claim.Run, Claim: claim.Mode})
		}
	case domaintest.Register:
		r.Err = s.Processes().Register(ctx, c.Process, "", time.Hour)
	case domaintest.Kill:
		r.Err = s.Processes().Deregister(ctx, c.Process)
	case domaintest.Bury:
		var orphans []ports.RunRef
		orphans, _, r.Err = s.Processes().Bury(ctx)
		for _, o := range orphans {
			r.Orphans = append(r.Orphans, domaintest.Orphan(o))
		}
	}
	return r
}

func same(got, want domaintest.Reply) bool {
	var refused *domain.Error
	if errors.As(want.Err, &refused) && !errors.Is(got.Err, refused) {
		return false
	}
	return (want.Err == nil) == (got.Err == nil) && show(got) == show(want)
}

// show writes what a store and a World both tell.
func show(r domaintest.Reply) string {
	var parts []string
	for _, o := range r.Orphans {
		parts = append(parts, fmt.Sprint(o))
	}
	for _, c := range r.Claims {
		parts = append(parts, showOutcome(domain.Outcome{Session: c.Session, Run: c.Run, Claim: c.Claim}))
	}
	slices.Sort(parts)
	return strings.Join(append(parts, showOutcome(r.Outcome)), "\n")
}

func showOutcome(out domain.Outcome) string {
	var event domain.Event
	var run domain.Run
	var parent domain.SessionRef
	if out.Event != nil {
		event = *out.Event
	}
	if out.Run != nil {
		run = *out.Run
		run.AvailableAt, run.ClaimSeq, run.CancelSeq = time.Time{}, nil, nil // the state at the end shows them
	}
	if out.Wake.Parent != nil {
		parent = *out.Wake.Parent
	}
	out.Event, out.Run, out.Wake.Parent = nil, nil, nil
	return fmt.Sprintf("%+v %+v %+v %+v", out, event, run, parent)
}
