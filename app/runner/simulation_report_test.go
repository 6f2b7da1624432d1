package runner_test

import (
	"fmt"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// report says what is wrong, and all that happened; "" when nothing is.
func (s *simulation) report() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d faults; again: go test ./app/runner -run '^TestSimulation$' -seed=%d -seeds=1 -v\n", s.seed, len(s.faults), s.seed)
	for _, f := range s.faults[:min(len(s.faults), 20)] {
		fmt.Fprintf(&b, "  FAULT %s\n", f)
	}
	fmt.Fprintf(&b, "%s\n", strings.Join(s.notes, "\n"))
	for _, ref := range s.sessions {
		s.dump(&b, ref)
	}
	return b.String()
}

// dump writes all that is known of a session.
func (s *simulation) dump(b *strings.Builder, ref domain.SessionRef) {
	rows, list, events, err := s.audit(ref)
	fmt.Fprintf(b, "\n%s/%s: %s, owner %q, epoch %d, parent %+v, %v\n", ref.Tenant, ref.Session, rows.Session.State, rows.Session.Owner,
		rows.Session.Epoch, rows.Session.Parent, err)
	for _, e := range events {
		fmt.Fprintf(b, "  %d %s e%d %s %s\n", e.Seq, e.Kind, e.Epoch, e.RunID, e.Payload)
	}
	for _, run := range list {
		fmt.Fprintf(b, "  run %s: %s %s, attempts %d, epoch %d, claim %s, cancel %s\n", run.ID, run.Status, run.Reason, run.Attempts, run.Epoch,
			seqOr(run.ClaimSeq), seqOr(run.CancelSeq))
	}
	for _, a := range s.history[ref][max(0, len(s.history[ref])-500):] {
		fmt.Fprintf(b, "  %11.6f %-4s %T created=%t %v%s\n", a.at.Sub(s.began).Seconds(), a.by, a.cmd, a.out.Created, a.err, describeAct(a))
	}
}

func describeAct(a act) string {
	text := ""
	if t, ok := token(a.cmd); ok {
		text = fmt.Sprintf(" as %s in e%d", t.Process, t.Epoch)
	}
	if a.out.Event != nil && a.out.Created {
		text += fmt.Sprintf(" → %d", a.out.Event.Seq)
	}
	if c, ok := a.cmd.(domain.ClaimRun); ok {
		text += fmt.Sprintf(" %s by %s in e%d: %s", c.Run, c.Process, a.out.Run.Epoch, a.out.Claim)
	}
	return text
}

func seqOr(s *domain.Seq) string {
	if s == nil {
		return "none"
	}
	return fmt.Sprint(*s)
}
