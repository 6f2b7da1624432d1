package runner_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/keel-agent/keel/domain"
)

// meddle lets something happen while a summary is written or right behind it: to the process, or by a user.
func (s *simulation) meddle(p *process, ref domain.SessionRef, r *rand.Rand, delay time.Duration) {
	if s.calm.Load() || r.Float64() >= s.weather.meddling {
		return
	}
	later := rand.New(rand.NewPCG(r.Uint64(), 0)) // r belongs to the caller
	happens := []func(){
		func() { s.submitted(ref, later) }, func() { s.submitted(ref, later) }, func() { s.cancelsAll(ref) },
		p.kill, func() { s.brief(p, later) }, func() { s.asksToCompact(ref, later) },
	}[r.IntN(6)]
	time.AfterFunc(upTo(r, delay+3*s.weather.latency), func() {
		if !s.calm.Load() {
			happens()
		}
	})
}

// submitted is one more input of a session, of whom its user knows nothing.
func (s *simulation) submitted(ref domain.SessionRef, r *rand.Rand) {
	key := fmt.Sprintf("%s-m%d", ref.Session, r.Uint32())
	in := &sentInput{text: "input " + key, delivery: one(r, domain.Queue, domain.Guide)}
	in.payload = payload(s.t, fmt.Sprintf(`{"text":%q,"requestId":%q,"delivery":%q}`, in.text, key, in.delivery))
	s.sending(ref, key, in)
	out, err := s.do("meddler", ref, domain.SubmitInput{At: time.Now(), RequestID: key, Payload: in.payload, NewRun: "run-" + key})
	if err == nil {
		in.acked = out.Event
	}
}

func (s *simulation) cancelsAll(ref domain.SessionRef) {
	s.mu.Lock()
	s.cancels[ref] = append(s.cancels[ref], cancelled{"", time.Now()})
	s.mu.Unlock()
	_, _ = s.do("meddler", ref, domain.RequestCancel{})
}

func (s *simulation) asksToCompact(ref domain.SessionRef, r *rand.Rand) {
	_, _ = s.do("meddler", ref, domain.EnsureRun{At: time.Now(), NewRun: fmt.Sprintf("run-%s-c%d", ref.Session, r.Uint32()), Compact: true})
}

// brief is an outage of a process's link or of the process itself.
func (s *simulation) brief(p *process, r *rand.Rand) {
	d := upTo(r, 40*time.Second)
	if r.IntN(2) == 0 {
		p.cut()
		time.AfterFunc(d, p.mend)
		return
	}
	time.AfterFunc(d, p.freeze())
}
