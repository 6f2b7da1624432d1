package runner_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// performance.md: ≤ 1 query/s when idle, of all that a process asks for.
func TestAnIdleProcessAsksRarely(t *testing.T) {
	for _, n := range []int{1, 3} {
		play(t, func(w *world) {
			for range n {
				w.start()
				time.Sleep(1700 * time.Millisecond)
			}
			w.script(text("done"))
			w.say("go")
			w.settled()
			const idle = 10 * time.Minute
			var before []int
			for _, n := range w.nodes {
				before = append(before, n.line.called())
			}
			time.Sleep(idle)
			for i, n := range w.nodes {
				require.LessOrEqual(t, n.line.called()-before[i], int(idle.Seconds()), "of %d processes", len(w.nodes))
			}
		})
	}
}

// gone waits until the process has no row any more and returns how long that took.
func (w *world) gone(process string) time.Duration {
	w.t.Helper()
	began := time.Now()
	for time.Since(began) < 2*time.Minute {
		rows, err := w.store.Processes().List(w.t.Context())
		require.NoError(w.t, err)
		if !slices.ContainsFunc(rows, func(p ports.Process) bool { return p.ID == process }) {
			return time.Since(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("%s is still there", process)
	return 0
}

// Whenever it registered, and however long its lease: who dies is buried when the lease has run out, or a second later if
// a look has only just been taken.
func TestTheDeadAreBuriedWhenTheirLeaseEnds(t *testing.T) {
	play(t, func(w *world) {
		w.start()
		time.Sleep(2300 * time.Millisecond)
		w.start()
		processes := w.store.Processes()
		for _, ttl := range []time.Duration{6 * time.Second, 15 * time.Second, time.Minute} {
			for range 30 {
				time.Sleep(1370 * time.Millisecond)
				id := w.ids.New()
				require.NoError(t, processes.Register(t.Context(), id, "", ttl))
				late := w.gone(id) - ttl
				require.GreaterOrEqual(t, late, time.Duration(0))
				require.LessOrEqual(t, late, time.Second, "of a lease of %v", ttl)
			}
		}
	})
}

// A lease that is short beside a second, as of the drills, makes nobody look all the time.
func TestLooksForTheDeadAreASecondApart(t *testing.T) {
	play(t, func(w *world) {
		n := w.start(func(c *runner.Config) {
			c.LeaseTTL, c.Heartbeat, c.Poll = 300*time.Millisecond, 100*time.Millisecond, time.Hour
		})
		before := n.line.called()
		time.Sleep(time.Minute)
		const beats, looks, cascades = 600, 60, 100
		require.InDelta(t, beats+looks+cascades, n.line.called()-before, 3)
	})
}

func TestARescueThatFailedIsTriedAgainSoon(t *testing.T) {
	play(t, func(w *world) {
		w.script(slowly(time.Hour, text("never")), text("done"))
		first := w.start()
		w.say("go")
		time.Sleep(time.Second)
		var tries []time.Time
		second := w.start()
		isRescue := func(c domain.Command) bool { _, ok := c.(domain.Rescue); return ok }
		second.line.slow = func(c domain.Command) time.Duration {
			if isRescue(c) && len(tries) == 0 {
				return 16 * time.Second // longer than it waits
			}
			return 0
		}
		second.line.before = func(c domain.Command) {
			if isRescue(c) {
				tries = append(tries, time.Now())
			}
		}
		first.line.setCut(true)
		w.settled()
		synctest.Wait()
		require.Len(t, tries, 2)
		require.LessOrEqual(t, tries[1].Sub(tries[0]), time.Second)
	})
}
