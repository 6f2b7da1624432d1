package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// simProvider is a process's way to a backend that answers, calls tools, fails in every way, stalls and is slow to stop.
type simProvider struct {
	p    *process
	name string
}

func (sp simProvider) Name() string { return sp.name }
func (simProvider) Models(context.Context, ports.Confidential) ([]ports.Model, error) {
	return nil, nil
}

// shown is a request as the backend saw it. The texts of inputs and answers are unique in the simulation.
type shown struct {
	ref     domain.SessionRef
	claim   claimed
	model   string            // the backend, and what it was asked for
	token   string            // what the backend answers, as text
	summary string            // the first line of the summary that it begins with, "" when there is none
	inputs  []string          // texts of inputs, in order
	answers []string          // texts of answers, in order
	results map[string]string // the text of each result by the id of its call
	refused bool              // it was too large
}

func (sp simProvider) Generate(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	s := sp.p.s
	if req.Turn.Summary {
		return sp.sums(ctx, req)
	}
	q, n := s.present(sp, req)
	r := s.roll("answer/"+req.System, n)
	torn := ports.Reply{Content: []domain.Block{{Type: domain.TextBlock, Text: "torn " + q.token}}}
	delay := s.thinking(r)
	for range 1 + r.IntN(3) {
		emit(ports.Delta{Text: "…"})
		if !wait(ctx, delay/3) {
			if r.IntN(4) == 0 {
				time.Sleep(upTo(r, 4*time.Second)) // slow to stop
			}
			sp.p.awake()
			return torn, context.Cause(ctx)
		}
	}
	emit(ports.Delta{Text: q.token})
	sp.p.awake()
	if fault := s.refusal(sp.name, req); fault != nil {
		return torn, s.refuses(q, fault)
	}
	if !s.calm.Load() && r.Float64() < s.weather.torn {
		return s.tears(r, q, torn)
	}
	return s.answers(r, q, s.counted(req)), nil
}

// thinking is how long a generation takes.
func (s *simulation) thinking(r *rand.Rand) time.Duration {
	if s.calm.Load() {
		return upTo(r, 2*time.Second)
	}
	return upTo(r, one(r, 100*time.Millisecond, 2*time.Second, 8*time.Second, 60*time.Second))
}

// tears ends a generation with a fault.
func (s *simulation) tears(r *rand.Rand, q *shown, torn ports.Reply) (ports.Reply, error) {
	fault := &ports.ProviderError{Class: ports.Retryable, Message: "fault of " + q.token}
	switch r.IntN(12) {
	case 0:
		fault.Class = one(r, ports.Fatal, ports.Overflow, ports.TooLarge)
		fault.Status = one(r, 400, 401)
	case 1:
		fault.RetryAfter = domain.MaxRetryAfter + time.Second
	case 2, 3:
		fault.RetryAfter = upTo(r, 90*time.Second)
	case 4:
		return ports.Reply{StopReason: domain.StopEndTurn}, nil // an empty answer is none
	case 5:
		return ports.Reply{Content: torn.Content}, nil // no stop reason
	}
	if fault.Class != ports.Retryable || fault.RetryAfter > domain.MaxRetryAfter {
		return torn, s.refuses(q, fault)
	}
	return torn, fault
}

// refuses keeps that a request got a fault for good.
func (s *simulation) refuses(q *shown, fault *ports.ProviderError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hopeless[q.ref]++
	q.refused = fault.Class == ports.Overflow || fault.Class == ports.TooLarge
	return fault
}

// answers is a complete answer.
func (s *simulation) answers(r *rand.Rand, q *shown, counted int) ports.Reply {
	reply := ports.Reply{
		Content:    []domain.Block{{Type: domain.TextBlock, Text: q.token}, {Type: domain.TextBlock, Text: s.fill(r)}},
		StopReason: domain.StopEndTurn, Usage: &domain.Usage{Input: int64(counted), Output: 1},
	}
	if s.calm.Load() || r.Float64() >= s.weather.calls {
		reply.StopReason = one(r, domain.StopEndTurn, domain.StopEndTurn, domain.StopLength, domain.StopRefusal)
		return reply
	}
	for range 1 + r.IntN(3) {
		call := domain.Block{
			Type: domain.CallBlock, Name: one(r, "effect", "effect", "safe", "safe", "stubborn", "nosuch"), ProviderID: "call_0",
			Arguments: fmt.Sprintf(`{"ns":%d}`, upTo(r, one(r, time.Millisecond, 3*time.Second, 10*time.Second, 40*time.Second))),
		}
		if r.IntN(20) == 0 {
			call.Arguments, call.RawArguments = "", "{oops"
		}
		reply.Content = append(reply.Content, call)
	}
	return reply
}

// present keeps a request and returns it with its number in the session.
func (s *simulation) present(sp simProvider, req ports.ModelRequest) (*shown, int) {
	p := sp.p
	tenant, session, _ := strings.Cut(req.System, "/")
	q := &shown{
		ref: domain.SessionRef{Tenant: tenant, Session: session}, model: sp.name + "/" + req.Model, results: map[string]string{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q.claim = s.attempt(q.ref, p.name)
	n := 0
	for _, earlier := range s.requests {
		if earlier.ref == q.ref {
			n++
		}
	}
	q.token = fmt.Sprintf("answer %d of %s", n, session)
	s.requests = append(s.requests, q)
	s.trusted(q.claim, "a request")
	if q.claim.Mode != domain.ClaimWork {
		s.faultLocked("%s: a request of an attempt in mode %q", session, q.claim.Mode)
	}
	if err := q.read(req.Messages); err != nil {
		s.faultLocked("%s: %s is to a malformed request: %v", session, q.token, err)
	}
	s.showsWhatWaits(q)
	return q, n
}

// summaryHead is what domain puts before a summary.
const summaryHead = "Summary of the conversation before this point:\n\n"

// showsWhatWaits checks that a request shows all inputs that its run claimed and nobody has answered, and those of its
// turn. mu is held.
func (s *simulation) showsWhatWaits(q *shown) {
	now, _, err := s.store.Sessions().Get(context.Background(), q.ref)
	if err != nil || now.Owner != q.claim.Session.Owner || now.Epoch != q.claim.Run.Epoch {
		s.faultLocked("%s: %s is asked for in epoch %d, but %q owns %d (%v)", q.ref.Session, q.token, q.claim.Run.Epoch, now.Owner, now.Epoch, err)
		return
	}
	for _, seq := range slices.Concat(now.Unanswered, now.TurnInputs) {
		claimed := seq <= *q.claim.Run.ClaimSeq || slices.Contains(now.TurnInputs, seq)
		if claimed && !slices.Contains(q.inputs, s.texts[q.ref][seq]) {
			s.faultLocked("%s: %s is asked for without input %d, which waits", q.ref.Session, q.token, seq)
		}
	}
}

// read checks that messages are well formed, and keeps what they say.
func (q *shown) read(messages []domain.Message) error {
	var wanted []string // ids of the calls whose results come next
	last := domain.Role("")
	for i, m := range messages {
		switch {
		case len(m.Content) == 0:
			return fmt.Errorf("message %d is empty", i)
		case m.Role == domain.RoleTool:
			if len(wanted) == 0 || m.CallID != wanted[0] {
				return fmt.Errorf("message %d is the result of %q, wanted %q", i, m.CallID, wanted)
			}
			wanted = wanted[1:]
			q.results[m.CallID] = m.Content[0].Text
			continue
		case len(wanted) > 0:
			return fmt.Errorf("message %d comes before the results of %q", i, wanted)
		case m.Role == last, i == 0 && m.Role != domain.RoleUser:
			return fmt.Errorf("message %d is of %q again", i, m.Role)
		}
		last = m.Role
		for j, b := range m.Content {
			summary, isSummary := strings.CutPrefix(b.Text, summaryHead)
			switch {
			case isSummary && (i > 0 || j > 0):
				return fmt.Errorf("message %d holds a summary in its midst", i)
			case isSummary:
				q.summary, _, _ = strings.Cut(summary, "\n")
			case strings.HasPrefix(b.Text, pad):
			case strings.HasPrefix(b.Text, "torn "):
				return fmt.Errorf("message %d shows a failed answer: %s", i, b.Text)
			case b.Type == domain.CallBlock:
				wanted = append(wanted, b.ID)
			case m.Role == domain.RoleUser:
				q.inputs = append(q.inputs, b.Text)
			default:
				q.answers = append(q.answers, b.Text)
			}
		}
		if len(wanted) > 0 {
			last = domain.RoleTool
		}
	}
	switch {
	case len(wanted) > 0:
		return fmt.Errorf("the results of %q are missing", wanted)
	case last == domain.RoleAssistant:
		return errors.New("it ends with an answer")
	}
	return nil
}

// simPartials are the partials of a process.
type simPartials struct{ p *process }

func (sp simPartials) Publish(f ports.Partial) {
	s := sp.p.s
	s.mu.Lock()
	if c := s.claims[f.Ref][f.Epoch]; c.by != sp.p.name || c.Run.ID != f.Run || c.Run.Attempts != f.Attempt {
		s.faultLocked("%s: %s published a partial of run %s, epoch %d, attempt %d, but claimed %+v", f.Ref.Session, sp.p.name, f.Run, f.Epoch, f.Attempt, c.Run)
	} else {
		s.trusted(c, "a partial")
	}
	s.mu.Unlock()
	sp.p.awake()
	s.partials.Publish(f)
}

func (sp simPartials) Subscribe(ref domain.SessionRef) (<-chan ports.Partial, func()) {
	return sp.p.s.partials.Subscribe(ref)
}

// listen checks what a subscriber of partials sees, until the simulation is over.
func (s *simulation) listen(ref domain.SessionRef) {
	frames, cancel := s.partials.Subscribe(ref)
	defer cancel()
	epoch := int64(0)
	for {
		select {
		case f := <-frames:
			if f.Epoch < epoch {
				s.fault("%s: a partial of epoch %d after one of %d", ref.Session, f.Epoch, epoch)
			}
			epoch = f.Epoch
		case <-s.over:
			return
		}
	}
}

// simTools are a process's way to the tools: effect and stubborn may not run twice, and stubborn does not listen.
type simTools struct{ p *process }

func (simTools) Specs() []ports.ToolSpec {
	return []ports.ToolSpec{{Name: "effect"}, {Name: "safe", ReplaySafe: true}, {Name: "stubborn"}}
}

// execution is one time that a tool ran.
type execution struct {
	ref   domain.SessionRef
	claim claimed
	at    time.Time
	id    string
	name  string
}

func (st simTools) Execute(ctx context.Context, c ports.ToolInvocation) (ports.ToolOutput, error) {
	s := st.p.s
	s.mu.Lock()
	e := execution{ref: c.Ref, claim: s.attempt(c.Ref, st.p.name), at: time.Now(), id: c.ID, name: c.Name}
	s.runs = append(s.runs, e)
	s.trusted(e.claim, "a tool")
	s.mu.Unlock()
	var args struct{ NS time.Duration }
	if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
		return ports.ToolOutput{}, err
	}
	if c.Name == "stubborn" {
		time.Sleep(args.NS)
	} else if !wait(ctx, args.NS) {
		return ports.ToolOutput{}, context.Cause(ctx)
	}
	st.p.awake()
	filler := s.fill(s.roll(c.ID, 0))
	return ports.ToolOutput{Content: []domain.Block{{Type: domain.TextBlock, Text: "ran " + c.ID}, {Type: domain.TextBlock, Text: filler}}}, nil
}
