package runner_test

import (
	"context"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// records are what happened in a simulation, as the outside world saw it.
type records struct {
	calmAt  time.Time
	commits map[domain.SessionRef]int

	history   map[domain.SessionRef][]act
	claims    map[domain.SessionRef]map[int64]claimed // by epoch
	expires   map[string]time.Time                    // by process id, by the store's clock
	trusts    map[string]time.Time                    // until when a process may believe in its lease
	draining  map[string]bool
	inputs    map[domain.SessionRef]map[string]*sentInput // by key
	texts     map[domain.SessionRef]map[domain.Seq]string // of committed inputs
	requests  []*shown
	summaries []*asked
	runs      []execution
	cancels   map[domain.SessionRef][]cancelled
	hopeless  map[domain.SessionRef]int // permanent faults of the provider
	children  map[domain.SessionRef]time.Time
}

func newRecords() records {
	return records{
		commits: map[domain.SessionRef]int{},
		history: map[domain.SessionRef][]act{}, claims: map[domain.SessionRef]map[int64]claimed{}, expires: map[string]time.Time{},
		trusts: map[string]time.Time{}, draining: map[string]bool{}, inputs: map[domain.SessionRef]map[string]*sentInput{},
		cancels: map[domain.SessionRef][]cancelled{}, hopeless: map[domain.SessionRef]int{},
		texts: map[domain.SessionRef]map[domain.Seq]string{}, children: map[domain.SessionRef]time.Time{},
	}
}

// act is a command that reached the store.
type act struct {
	at  time.Time
	by  string
	cmd domain.Command
	out domain.Outcome
	err error
}

// claimed is an attempt that began.
type claimed struct {
	ports.Claim
	by string // the link's name
	at time.Time
}

// do carries out a command and keeps it. Nothing else happens meanwhile.
func (s *simulation) do(by string, ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, _, _ := s.store.Sessions().Get(context.Background(), ref)
	out, err := s.store.Do(context.Background(), ref, cmd)
	s.history[ref] = append(s.history[ref], act{time.Now(), by, cmd, out, err})
	if in, ok := cmd.(domain.SubmitInput); ok && err == nil && out.Created {
		s.committed(ref, in, out.Event.Seq)
	}
	if err == nil && out.Created {
		s.judge(ref, before, cmd, out)
	}
	return out, err
}

// committed keeps the text of an input. mu is held.
func (s *simulation) committed(ref domain.SessionRef, in domain.SubmitInput, seq domain.Seq) {
	if s.texts[ref] == nil {
		s.texts[ref] = map[domain.Seq]string{}
	}
	if sent := s.inputs[ref][in.RequestID]; sent != nil {
		s.texts[ref][seq] = sent.text
	}
}

// judge checks a command that had effects, above all against the lease under which it came.
func (s *simulation) judge(ref domain.SessionRef, before domain.Session, cmd domain.Command, out domain.Outcome) {
	if c, ok := cmd.(domain.Settle); ok && out.Run.ID == c.Run && out.Run.CancelSeq != nil && out.Run.Status != domain.StatusFailed {
		s.faultLocked("%s: run %s was cancelled and is settled as %s", ref.Session, c.Run, out.Run.Status)
	}
	if _, ok := cmd.(domain.Rescue); ok {
		if s.expires[before.Owner].After(time.Now()) {
			s.faultLocked("%s: rescued from %s, which lives", ref.Session, before.Owner)
		}
		return
	}
	if t, ok := token(cmd); ok && (t.Process != before.Owner || t.Epoch != before.Epoch) {
		s.faultLocked("%s: %T of %s in epoch %d, but %q owns epoch %d", ref.Session, cmd, t.Process, t.Epoch, before.Owner, before.Epoch)
	}
}

// token returns the lease under which a command is given.
func token(cmd domain.Command) (domain.Token, bool) {
	switch c := cmd.(type) {
	case domain.AppendAssistant:
		return c.Token, true
	case domain.StartCalls:
		return c.Token, true
	case domain.AppendToolResult:
		return c.Token, true
	case domain.AppendCompaction:
		return c.Token, true
	case domain.HandBack:
		return c.Token, true
	case domain.Settle:
		return c.Token, true
	default:
		return domain.Token{}, false
	}
}

func (s *simulation) claim(by string, c ports.ClaimRequest) ([]ports.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims, err := s.store.Runs().Claim(context.Background(), c)
	for _, cl := range claims {
		ref := cl.Session.Ref
		if !s.expires[c.Process].After(time.Now()) || s.draining[c.Process] {
			s.faultLocked("%s: claimed by %s, which is dead or drains", ref.Session, c.Process)
		}
		if _, taken := s.claims[ref][cl.Run.Epoch]; taken {
			s.faultLocked("%s: epoch %d was claimed twice", ref.Session, cl.Run.Epoch)
		}
		if s.claims[ref] == nil {
			s.claims[ref] = map[int64]claimed{}
		}
		s.claims[ref][cl.Run.Epoch] = claimed{cl, by, time.Now()}
		out := domain.Outcome{Created: true, Session: cl.Session, Run: &cl.Run, Claim: cl.Mode}
		s.history[ref] = append(s.history[ref], act{time.Now(), by, domain.ClaimRun{Run: cl.Run.ID, Process: c.Process}, out, nil})
	}
	return claims, err
}

func (s *simulation) register(id, address string, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.store.Processes().Register(context.Background(), id, address, ttl)
	if err == nil {
		s.expires[id] = time.Now().Add(ttl)
	}
	return err
}

func (s *simulation) renew(id string, ttl time.Duration) ([]ports.Owned, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owned, err := s.store.Processes().Renew(context.Background(), id, ttl)
	if err == nil {
		if !s.expires[id].After(time.Now()) {
			s.faultLocked("the expired row of %s was renewed", id)
		}
		s.expires[id] = time.Now().Add(ttl)
	}
	return owned, err
}

func (s *simulation) setDraining(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.store.Processes().SetDraining(context.Background(), id)
	if err == nil {
		s.draining[id] = true
	}
	return err
}

func (s *simulation) deregister(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expires[id] = time.Now()
	return s.store.Processes().Deregister(context.Background(), id)
}

// renewed notes that a process got the reply to a renewal.
func (s *simulation) renewed(id string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trusts[id] = until
}

// attempt returns the latest attempt of a session that a process began. mu is held.
func (s *simulation) attempt(ref domain.SessionRef, by string) (latest claimed) {
	for _, c := range s.claims[ref] {
		if c.by == by && c.Run.Epoch > latest.Run.Epoch {
			latest = c
		}
	}
	return latest
}

// trusted checks that a process does something to the outside world under a lease that it may believe in. mu is held.
func (s *simulation) trusted(c claimed, what string) {
	if id := c.Session.Owner; time.Now().After(s.trusts[id]) {
		s.faultLocked("%s: %s by %s %v after the end of its lease", c.Session.Ref.Session, what, id, time.Since(s.trusts[id]))
	}
}

// audit returns all rows and events of a session.
func (s *simulation) audit(ref domain.SessionRef) (ports.AuditRows, []domain.Run, []domain.Event, error) {
	ctx := context.Background()
	var rows ports.AuditRows
	err := s.store.Audit().Rows(ctx, ref, func(all ports.AuditRows) error {
		rows, rows.Runs = all, nil
		return nil
	})
	if err != nil {
		return rows, nil, nil, err
	}
	runs, err := s.store.Runs().List(ctx, ref, nil, 1000)
	if err != nil {
		return rows, nil, nil, err
	}
	events, err := s.store.Events(ctx, ref, 0, 100_000)
	return rows, runs, events, err
}
