package runner_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

// TestCompactionDisturbedAtEachPoint lets each thing happen that can at each point of a compaction, whatever it was made
// for: before and behind each call of the store and in the middle of the summary.
func TestCompactionDisturbedAtEachPoint(t *testing.T) {
	for cause, begin := range map[string]func(*simulation, domain.SessionRef, *rand.Rand){
		"the window": func(s *simulation, ref domain.SessionRef, r *rand.Rand) {
			s.weather.windows["wide"] = 400
			s.submitted(ref, r)
		},
		"a refusal": func(s *simulation, ref domain.SessionRef, r *rand.Rand) {
			s.weather.limits["wide"] = 400
			s.submitted(ref, r)
		},
		"a user": (*simulation).asksToCompact,
	} {
		t.Run(cause, func(t *testing.T) {
			undisturbed := compactAt(t, begin, -1, nil)
			require.Greater(t, undisturbed, 5)
			for _, happens := range []func(*simulation, *process, domain.SessionRef, *rand.Rand){
				func(_ *simulation, p *process, _ domain.SessionRef, _ *rand.Rand) { p.kill() },
				func(_ *simulation, p *process, _ domain.SessionRef, _ *rand.Rand) {
					p.kill()
					time.Sleep(time.Minute) // what it sent last arrives when another owns the session
				},
				func(_ *simulation, p *process, _ domain.SessionRef, _ *rand.Rand) {
					time.AfterFunc(20*time.Second, p.freeze())
				},
				func(s *simulation, p *process, _ domain.SessionRef, _ *rand.Rand) { s.drains(p) },
				func(s *simulation, _ *process, ref domain.SessionRef, _ *rand.Rand) { s.cancelsAll(ref) },
				func(s *simulation, _ *process, ref domain.SessionRef, r *rand.Rand) { s.submitted(ref, r) },
				func(s *simulation, _ *process, ref domain.SessionRef, r *rand.Rand) { s.asksToCompact(ref, r) },
			} {
				for point := range undisturbed {
					compactAt(t, begin, point, happens)
				}
			}
		})
	}
}

// compactAt has a session compacted for a reason, while something happens at one point, and returns how many points
// there were.
func compactAt(
	t *testing.T, begin func(*simulation, domain.SessionRef, *rand.Rand), at int,
	happens func(*simulation, *process, domain.SessionRef, *rand.Rand),
) (points int) {
	var passed atomic.Int32
	s := newSimulation(1)
	s.weather = weather{latency: time.Millisecond, workers: 1, budget: 5, turns: 5, scale: scale{
		windows: map[string]int{}, limits: map[string]int{}, counts: 1, at: 0.8, keep: 0.2, filler: 1500,
	}}
	synctest.Test(t, func(t *testing.T) {
		s.begin(t)
		s.start()
		p, ref, r := s.all()[0], domain.SessionRef{Tenant: "a", Session: "s0"}, s.roll("point", at)
		s.sessions = append(s.sessions, ref)
		_, err := s.do("user", ref, domain.CreateSession{
			At: time.Now(), Request: payload(t, "{}"), Info: domain.SessionInfo{System: "a/s0", Tools: []string{"effect"}},
		})
		require.NoError(t, err)
		for range 4 {
			s.submitted(ref, r)
			time.Sleep(90 * time.Second)
		}
		require.Empty(t, s.active())
		p.point = func() {
			if int(passed.Add(1)) == at+1 {
				time.AfterFunc(time.Second, s.start)
				happens(s, p, ref, r)
			}
		}
		begin(s, ref, r)
		for s.active() != "" {
			time.Sleep(time.Second)
		}
		p.change(func() { p.point = nil })
		s.settleDown()
		if s.rest(restWithin) {
			s.check(t)
		}
		s.end()
		if at < 0 {
			_, _, events, err := s.audit(ref)
			require.NoError(t, err)
			require.Contains(t, kinds(events), domain.Compaction)
		}
	})
	require.Empty(t, s.report(), "point %d", at)
	return int(passed.Load())
}

func kinds(events []domain.Event) (kinds []domain.Kind) {
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}
