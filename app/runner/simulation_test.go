package runner_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

var (
	firstSeed = flag.Uint64("seed", 1, "TestSimulation: the first seed")
	seedCount = flag.Int("seeds", 0, "TestSimulation: how many seeds to play from the first on; 0 means 2000, or 100 with -short")
)

// TestSimulation plays one life of several processes on one store per seed, with faults of every kind, and then checks
// the ledgers, the rows, what the provider was shown and what the tools did (CONTRIBUTING.md).
func TestSimulation(t *testing.T) {
	n := *seedCount
	if n == 0 {
		if n = 2000; testing.Short() {
			n = 100
		}
	}
	gc := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(gc) })
	var failed atomic.Bool
	shards := min(n, runtime.GOMAXPROCS(0))
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			for i := shard; i < n && !failed.Load(); i += shards {
				if report := simulate(t, *firstSeed+uint64(i)); report != "" {
					failed.Store(true)
					t.Fatal(report)
				}
			}
		})
	}
}

// simulate plays one seed and returns what is wrong, "" when nothing is.
func simulate(t *testing.T, seed uint64) (report string) {
	t.Helper()
	s := newSimulation(seed)
	defer func() {
		if p := recover(); p != nil {
			s.fault("%v", p) // of synctest: a goroutine was left
		}
		report = s.report()
	}()
	synctest.Test(t, s.play)
	return ""
}

// simulation is one seed: a world of its own, what happened in it, and what was found to be wrong.
type simulation struct {
	t        *testing.T
	seed     uint64
	plan     *rand.Rand
	weather  weather
	began    time.Time
	store    *memory.Store
	hub      *bus.Hub
	partials *bus.Partials
	users    sync.WaitGroup
	calm     atomic.Bool
	shut     atomic.Bool // no call comes through any more
	over     chan struct{}

	mu        sync.Mutex
	processes []*process
	sessions  []domain.SessionRef
	records   // all that happened
	faults    []string
	notes     []string
}

func newSimulation(seed uint64) *simulation {
	plan := rand.New(rand.NewPCG(seed, 0))
	return &simulation{
		seed: seed, plan: plan, weather: newWeather(plan), records: newRecords(),
		hub: new(bus.Hub), partials: new(bus.Partials),
	}
}

// weather is how rough one seed is. Most seeds are rough in a few ways only, so that each way is seen alone as well.
type weather struct {
	window  time.Duration // how long users act and faults happen
	latency time.Duration // the usual bound of each way of a call to the store
	storms  float64       // share of the calls that take up to stormy
	loss    float64       // share of the replies that get lost
	deaf    float64       // share of the wake-ups that get lost
	torn    float64       // share of the generations that fail
	calls   float64       // share of the generations that call tools
	hasty   float64       // share of the users' pauses that are short

	scale

	workers, budget, turns int
	chaos                  []func(*simulation, *process) // what happens to processes
}

const stormy = 6 * time.Second

func newWeather(r *rand.Rand) weather {
	w := weather{
		window:  time.Duration(20+r.IntN(70)) * time.Second,
		latency: one(r, time.Millisecond, 5*time.Millisecond, 200*time.Millisecond),
		storms:  one(r, 0, 0, 0.02, 0.1), loss: one(r, 0, 0, 0.03, 0.15, 0.4), deaf: one(r, 0, 0, 0.2, 1),
		torn: one(r, 0, 0.1, 0.4), calls: one(r, 0.2, 0.5, 0.8), hasty: one(r, 0.3, 0.7, 0.95),
		workers: 1 + r.IntN(4), budget: 2 + r.IntN(4), turns: one(r, 2, 5, 50),
	}
	w.scale = newScale(r)
	for _, kind := range chaos {
		if r.IntN(2) == 0 {
			for range 1 + r.IntN(3) {
				w.chaos = append(w.chaos, kind)
			}
		}
	}
	r.Shuffle(len(w.chaos), func(i, j int) { w.chaos[i], w.chaos[j] = w.chaos[j], w.chaos[i] })
	return w
}

func one[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// upTo returns a duration in [0,d], to the nanosecond: hardly any two things happen at one instant.
func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }

// roll is the chance of one occasion: the same for the same seed and occasion, whatever else happens meanwhile.
func (s *simulation) roll(occasion string, n int) *rand.Rand {
	h := uint64(14695981039346656037)
	for i := range len(occasion) {
		h = (h ^ uint64(occasion[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(s.seed, h+uint64(n)*0x9e3779b97f4a7c15))
}

// Committed tells of commits as the store does, except for those that get lost.
func (s *simulation) Committed(c ports.Commit) {
	s.commits[c.Ref]++ // mu is held: every command goes through do or claim
	if !s.calm.Load() && s.weather.deaf > 0 && s.roll("wake/"+c.Ref.Session, s.commits[c.Ref]).Float64() < s.weather.deaf {
		return
	}
	s.hub.Committed(c)
}

// play is the life of one world, in its bubble.
func (s *simulation) play(t *testing.T) {
	s.begin(t)
	s.populate(t)
	for range 1 + s.plan.IntN(4) {
		s.start()
	}
	s.disturb()
	s.users.Wait()
	s.settleDown()
	rested := s.rest(restWithin)
	if rested {
		time.Sleep(time.Minute)
		s.check(t)
	}
	before := s.heads()
	s.end()
	if after := s.heads(); rested && !slices.Equal(before, after) {
		s.fault("a ledger grew after the end: heads %v, then %v", before, after)
	}
}

func (s *simulation) begin(t *testing.T) {
	s.t, s.began, s.over = t, time.Now(), make(chan struct{})
	s.store = memory.New(memory.Config{Now: time.Now, Notifier: s})
}

// restWithin is how long all sessions may need to come to rest when nothing disturbs any more: the longest back-off, a
// takeover, the slowest tools.
const restWithin = 5 * time.Minute

// populate makes the sessions and the people who use them.
func (s *simulation) populate(t *testing.T) {
	for i := range 1 + s.plan.IntN(4) {
		ref := domain.SessionRef{Tenant: one(s.plan, "a", "b"), Session: fmt.Sprintf("s%d", i)}
		s.open(t, ref, nil)
	}
}

// disturb lets faults happen until the window is over.
func (s *simulation) disturb() {
	pause := 2 * s.weather.window / time.Duration(len(s.weather.chaos)+1)
	for _, happen := range s.weather.chaos {
		time.Sleep(upTo(s.plan, pause))
		if p := s.somebody(); p != nil {
			happen(s, p)
		} else {
			s.start()
		}
	}
	time.Sleep(time.Until(s.began.Add(s.weather.window)))
}

// settleDown ends every fault; what was killed stays so.
func (s *simulation) settleDown() {
	s.calm.Store(true)
	s.calmAt = time.Now()
	for _, p := range s.all() {
		p.recover()
	}
	s.note("calm")
	if s.somebody() == nil {
		s.start()
	}
}

// rest waits until no session has an active run.
func (s *simulation) rest(within time.Duration) bool {
	for range within / (5 * time.Second) {
		if s.failed() {
			return false // at once: what is wrong may go on for ever
		}
		time.Sleep(5 * time.Second)
		if s.active() == "" {
			return true
		}
	}
	s.fault("not at rest %v after the last fault: %s", within, s.active())
	return false
}

func (s *simulation) active() string {
	var runs []string
	for _, ref := range s.refs() {
		if _, run, err := s.store.Sessions().Get(context.Background(), ref); err != nil || run != nil {
			runs = append(runs, fmt.Sprintf("%s (%+v, %v)", ref.Session, run, err))
		}
	}
	return strings.Join(runs, ", ")
}

func (s *simulation) heads() []domain.Seq {
	heads, _ := s.store.Sessions().Heads(context.Background(), s.refs())
	return heads
}

// drainWithin is how long a process may need to end: its lease, when it does not reach the store, and the slowest backend.
const drainWithin = 3 * time.Minute

// end drains every process, so that the bubble can end. Those that were killed do not reach the store.
func (s *simulation) end() {
	var drains sync.WaitGroup
	for _, p := range s.all() {
		drains.Go(func() { p.drain(time.Second) })
	}
	ended := make(chan struct{})
	go func() { drains.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(drainWithin):
		s.fault("a process does not end")
		s.shut.Store(true)
		<-ended
	}
	close(s.over)
	time.Sleep(5 * time.Minute) // tools that do not listen
}

func (s *simulation) all() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.processes)
}

func (s *simulation) refs() []domain.SessionRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sessions)
}

// somebody returns a process that is neither killed nor drained, or nil.
func (s *simulation) somebody() *process {
	alive := slices.DeleteFunc(s.all(), func(p *process) bool { return p.gone() })
	if len(alive) == 0 {
		return nil
	}
	return alive[s.plan.IntN(len(alive))]
}

func (s *simulation) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.faults) > 0
}

func (s *simulation) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faultLocked(format, args...)
}

func (s *simulation) faultLocked(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func (s *simulation) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, fmt.Sprintf("%11.6f ", time.Since(s.began).Seconds())+fmt.Sprintf(format, args...))
}

// TestSimulationRepeats: a seed makes the same choices again.
func TestSimulationRepeats(t *testing.T) {
	for seed := range uint64(20) {
		a, b := newSimulation(seed), newSimulation(seed)
		require.Equal(t, a.weather.window, b.weather.window)
		require.Equal(t, a.roll("x", 1).Uint64(), b.roll("x", 1).Uint64())
		require.NotEqual(t, a.roll("x", 1).Uint64(), b.roll("x", 2).Uint64())
	}
}
