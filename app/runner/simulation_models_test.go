package runner_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/keel-agent/keel/app/compaction"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// The models of a simulation: two providers, the default one first, whose windows differ.
var backends = []string{"wide", "narrow"}

// scale is how long conversations of one seed get, beside what its models take. Most windows are so small that a few
// answers fill them.
type scale struct {
	windows  map[string]int // tokens by provider, as the catalogue says; 0 is unknown
	limits   map[string]int // tokens above which the backend refuses, as it counts; 0 is none
	counts   float64        // what the backend counts for one byte, in quarters of a token
	at, keep float64        // compaction.Config
	summarer string         // the model that writes summaries, "" is the request's
	filler   int            // at most so many bytes of an answer, an output or a summary say nothing
	switches float64        // share of the inputs that choose a model
	unsummed float64        // share of the summaries that fail
	meddling float64        // share of the summaries during which something happens
}

func newScale(r *rand.Rand) scale {
	narrow := one(r, 0, 100, 200, 400)
	wide := narrow * (2 + r.IntN(4))
	sc := scale{
		windows: map[string]int{"wide": wide, "narrow": narrow}, limits: map[string]int{}, counts: one(r, 0.7, 1, 2),
		at: one(r, 0, 0.5, 0.8), keep: one(r, 0.1, 0.2, 0.5), summarer: one(r, "", "", "wide/w1", "narrow/n1"),
		filler: one(r, 0, 200, 1500), switches: one(r, 0, 0.3), unsummed: one(r, 0, 0.1, 0.5), meddling: one(r, 0, 0.5),
	}
	for name, window := range sc.windows {
		sc.limits[name] = one(r, 0, window, max(window, 400))
	}
	return sc
}

// simModels is the catalogue of a process, over its link.
type simModels struct {
	p         *process
	providers *runner.Providers
}

func (m simModels) Resolve(ctx context.Context, _, model string) (domain.Model, domain.ModelDefaults, error) {
	found, err := through(ctx, m.p.link, "models", func() (domain.Model, error) {
		provider, name := m.providers.Resolve(model)
		return domain.Model{Provider: provider.Name(), Name: name, ContextWindow: m.p.s.weather.windows[provider.Name()]}, nil
	})
	return found, domain.ModelDefaults{}, err
}

func (s *simulation) compactor() ports.Compactor {
	return simCompactor{compaction.New(compaction.Config{At: s.weather.at, Keep: s.weather.keep})}
}

// simCompactor tells the backend of whose conversation a summary is.
type simCompactor struct{ ports.Compactor }

type ofSession struct{}

func (c simCompactor) Summarise(
	ctx context.Context, ask ports.Ask, p ports.Provider, m domain.Model, t *domain.Transcript, kept domain.Seq,
) (domain.Compacted, error) {
	for _, e := range t.Before(kept) {
		if e.Answer != nil && len(e.Answer.Content) > 0 {
			_, session, _ := strings.Cut(e.Answer.Content[0].Text, " of ")
			ctx = context.WithValue(ctx, ofSession{}, session)
		}
	}
	return c.Compactor.Summarise(ctx, ask, p, m, t, kept)
}

// chosen is a selection of a model for an input, "" when it chooses none.
func (s *simulation) chosen(r *rand.Rand) string {
	if r.Float64() >= s.weather.switches {
		return ""
	}
	return one(r, "wide/w1", "wide/w2", "narrow/n1", "narrow")
}

// fill returns text that says nothing, of a size of its own.
func (s *simulation) fill(r *rand.Rand) string {
	return strings.Repeat(pad, r.IntN(s.weather.filler/len(pad)+1))
}

const pad = "and so on "

// counted is what a backend counts for a request.
func (s *simulation) counted(req ports.ModelRequest) int {
	n := 0
	for _, m := range req.Messages {
		for _, b := range m.Content {
			n += len(b.Text) + len(b.Name) + len(b.Arguments)
		}
	}
	return int(float64(n) * s.weather.counts / 4)
}

// refusal is how a backend refuses a request that is too long for it, nil when it is not.
func (s *simulation) refusal(name string, req ports.ModelRequest) *ports.ProviderError {
	n, limit := s.counted(req), s.weather.limits[name]
	if limit == 0 || n <= limit {
		return nil
	}
	class := ports.Overflow
	if n%5 == 0 {
		class = ports.TooLarge
	}
	return &ports.ProviderError{Class: class, Message: fmt.Sprintf("%d tokens are more than %d", n, limit)}
}

// asked is a request for a summary as the backend saw it, and what came of it.
type asked struct {
	ref   domain.SessionRef
	claim claimed
	token string // what the backend answers, as text
	text  string // what is to be summarised
	fault string // "" when there was an answer
}

// sums answers a request for a summary, or fails in any way.
func (sp simProvider) sums(ctx context.Context, req ports.ModelRequest) (ports.Reply, error) {
	s := sp.p.s
	q, n := s.presentSummary(ctx, sp.p, req)
	r := s.roll("summary/"+q.ref.Session, n)
	delay := s.thinking(r)
	s.meddle(sp.p, q.ref, r, delay)
	usage := &domain.Usage{Input: int64(s.counted(req)), Output: 1}
	sp.p.passes()
	if !wait(ctx, delay) {
		sp.p.awake()
		return ports.Reply{Usage: usage}, context.Cause(ctx)
	}
	sp.p.awake()
	if fault := s.unsums(sp.name, req, r); fault != nil {
		return ports.Reply{Usage: usage}, s.unsummed(q, fault)
	}
	text := q.token + "\n" + s.fill(r)
	if !s.calm.Load() && r.Float64() < s.weather.unsummed {
		text += strings.Repeat(pad, len(q.text)) // no shorter
	}
	return ports.Reply{
		Content: []domain.Block{{Type: domain.TextBlock, Text: text}}, StopReason: one(r, domain.StopEndTurn, domain.StopLength), Usage: usage,
	}, nil
}

// unsums returns the fault that a summary ends with, or nil.
func (s *simulation) unsums(name string, req ports.ModelRequest, r *rand.Rand) *ports.ProviderError {
	if fault := s.refusal(name, req); fault != nil {
		return fault
	}
	if s.calm.Load() || r.Float64() >= s.weather.unsummed {
		return nil
	}
	class := one(r, ports.Retryable, ports.Retryable, ports.Fatal, ports.Overflow, ports.TooLarge)
	if s.counted(req) < 500 && class != ports.Fatal {
		class = ports.Retryable // nobody refuses next to nothing for its length
	}
	return &ports.ProviderError{Class: class, Message: "no summary"}
}

func (s *simulation) unsummed(q *asked, fault *ports.ProviderError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.fault = fault.Message
	if fault.Class != ports.Retryable {
		s.hopeless[q.ref]++
	}
	return fault
}

// presentSummary keeps a request for a summary and returns it with its number in the session.
func (s *simulation) presentSummary(ctx context.Context, p *process, req ports.ModelRequest) (*asked, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &asked{text: req.Messages[0].Content[0].Text}
	if len(req.Messages) != 1 || len(req.Tools) > 0 {
		s.faultLocked("a request for a summary has %d messages and %d tools", len(req.Messages), len(req.Tools))
	}
	for _, ref := range s.sessions {
		if ref.Session == ctx.Value(ofSession{}) {
			q.ref = ref
		}
	}
	n := 0
	for _, earlier := range s.summaries {
		if earlier.ref == q.ref {
			n++
		}
	}
	q.token, q.claim = fmt.Sprintf("summary %d of %s", n, q.ref.Session), s.attempt(q.ref, p.name)
	s.summaries = append(s.summaries, q)
	s.trusted(q.claim, "a request for a summary")
	if q.claim.Mode != domain.ClaimWork {
		s.faultLocked("%s: a summary is asked for in mode %q", q.ref.Session, q.claim.Mode)
	}
	return q, n
}
