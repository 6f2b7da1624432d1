package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// request is one call of a provider, from the snapshot of its boundary to the commit of its answer.
type request struct {
	generation string
	provider   ports.Provider
	model      domain.Model
	presented  domain.Presented
	body       ports.ModelRequest
	offered    map[string]offeredTool
}

// turn makes a request, commits the answer and runs its tools. over is true when the turn ended with it.
func (a *attempt) turn(req request) (v verdict, over bool, err error) {
	if err := context.Cause(a.ctx); err != nil { // it may have ended while the ledger was read
		return verdict{}, false, err
	}
	a.summary.Turns++
	reply, err := a.generate(req)
	if err == nil {
		err = usable(reply)
	}
	if err != nil {
		v, failure := a.fail(req, reply, err)
		if failure != nil {
			return v, true, failure
		}
		return a.relieve(req, err, v)
	}
	return a.accept(req, reply)
}

// choices are what is in force for a request: the selection and the tools that are offered.
type choices struct {
	domain.Selection
	raw     string // the selection as it stands in the ledger, "" when there is none
	answers int    // that the ledger holds for the input that brought it
	offered map[string]offeredTool
}

// choose returns the choices for a request that presents p.
func (a *attempt) choose(p domain.Presented) (c choices, err error) {
	c.raw, c.answers = a.t.Selection(p)
	if c.Selection, err = domain.ParseSelection(c.raw); err != nil {
		return c, permanent{fmt.Errorf("selection: %w", err)}
	}
	if !c.HasTools {
		c.Tools = a.claim.Session.Tools
	}
	c.offered = a.r.tools.offer(a.ctx, a.ref.Tenant, c.Tools)
	return c, context.Cause(a.ctx) // it may have ended while tools were loading
}

// prepare builds the request of a boundary. It fails when the input's selection cannot be read, or not be had any more, and
// when the tenant's own credential cannot be read.
func (a *attempt) prepare(p domain.Presented) (request, error) {
	c, err := a.choose(p)
	if err != nil {
		return request{}, err
	}
	m, err := a.model(&c)
	if err != nil {
		return request{}, err
	}
	provider := a.r.Providers.Named(m.Provider)
	credential, err := a.credential(provider.Name())
	if err != nil {
		return request{}, err
	}
	req := request{
		generation: a.r.IDs.New(), provider: provider, model: m, presented: p, offered: c.offered,
		body: ports.ModelRequest{
			Model: m.Name, System: a.claim.Session.System, Messages: a.messages(m, p), Tools: specs(c.Tools, c.offered),
			Options: ports.Options{Temperature: c.Temperature, MaxTokens: cmp.Or(c.MaxTokens, m.MaxOutput), Thinking: m.Level(c.Thinking)},
			Turn:    ports.Turn{Selection: c.raw, Call: c.answers},

			Credential: credential,
		},
	}
	a.summary.Provider, a.summary.Model = provider.Name(), cmp.Or(m.Name, a.summary.Model)
	return req, nil
}

// generate calls the provider and passes on what arrives, until the answer is whole or the attempt must stop.
func (a *attempt) generate(req request) (ports.Reply, error) {
	partial := ports.Partial{
		Ref: a.ref, GenerationID: req.generation, Run: a.claim.Run.ID, Attempt: a.claim.Run.Attempts, Epoch: a.token.Epoch,
	}
	publish := func(d ports.Delta) {
		if a.ctx.Err() == nil {
			partial.Delta = d
			a.r.Partials.Publish(partial)
		}
	}
	reply, err := req.provider.Generate(a.ctx, req.body, publish)
	if cause := context.Cause(a.ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil && a.lease.ctx.Err() == nil {
		partial.Delta = ports.Delta{End: "failed"}
		a.r.Partials.Publish(partial)
	}
	return reply, err
}

// usable returns an error when a reply that its provider calls complete is no answer.
func usable(r ports.Reply) error {
	fault := func(text string) error { return &ports.ProviderError{Class: ports.Retryable, Message: text} }
	if !r.StopReason.Completed() || r.StopReason == "" {
		return fault("the answer ended without a stop reason")
	}
	for _, b := range r.Content {
		switch b.Type {
		case domain.TextBlock:
			if strings.TrimSpace(b.Text) != "" {
				return nil
			}
		case domain.CallBlock:
			if b.Name == "" {
				return fault("a tool call has no name")
			}
			return nil
		case domain.ImageBlock:
			return nil
		}
	}
	if r.StopReason == domain.StopRefusal {
		return nil
	}
	return fault("the answer is empty (stop reason " + string(r.StopReason) + ")")
}

// fail commits the terminal message of a generation that gave no answer, and judges the attempt.
func (a *attempt) fail(req request, reply ports.Reply, fault error) (verdict, error) {
	if errors.Is(fault, errLeaseLost) || errors.Is(fault, errDrain) {
		return verdict{}, fault
	}
	m := a.message(req, reply)
	a.summary.Model = m.Model
	m.StopReason, m.Error = domain.StopError, fault.Error()
	if errors.Is(fault, errCancelRequested) {
		m.StopReason, m.Error = domain.StopAborted, ""
	}
	m.Content = withoutCalls(m.Content)
	if err := a.commitFailed(req, m); err != nil {
		return verdict{}, err
	}
	a.account(m)
	if errors.Is(fault, errCancelRequested) {
		return verdict{}, errCancelRequested
	}
	v := judge(fault)
	v.stopReason = m.StopReason
	if reply.StopReason == domain.StopLength {
		v.stopReason = domain.StopLength
	}
	return v, nil
}

// commitFailed commits a terminal message, without its content when that cannot be stored.
func (a *attempt) commitFailed(req request, m domain.Assistant) error {
	payload, err := m.Payload(a.r.cfg.MaxBytes)
	if err != nil {
		m.Content, m.Error = nil, clip(m.Error, 1000)
		if payload, err = m.Payload(a.r.cfg.MaxBytes); err != nil {
			return err
		}
	}
	_, err = a.do(domain.AppendAssistant{
		At: a.r.Clock.Now(), Run: a.claim.Run.ID, Token: a.token, GenerationID: req.generation, Payload: payload,
	})
	return err
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// message is the ledger form of a reply.
func (a *attempt) message(req request, reply ports.Reply) domain.Assistant {
	return domain.Assistant{
		Content: reply.Content, InputSeqs: req.presented.Seqs, HasInputSeqs: true, StopReason: reply.StopReason,
		GenerationID: req.generation, Provider: req.provider.Name(), Model: cmp.Or(reply.Model, req.body.Model), Usage: reply.Usage,
		Cost: a.replyCost(req.model, reply),
	}
}

func withoutCalls(blocks []domain.Block) []domain.Block {
	var kept []domain.Block
	for _, b := range blocks {
		if b.Type != domain.CallBlock {
			kept = append(kept, b)
		}
	}
	return kept
}

// accept commits an answer and runs the tools that it calls.
func (a *attempt) accept(req request, reply ports.Reply) (verdict, bool, error) {
	m := a.message(req, reply)
	m.Content = a.nameCalls(m.Content)
	calls := len(m.CallIDs())
	if calls > 0 && m.StopReason == domain.StopEndTurn {
		m.StopReason = domain.StopToolUse
	}
	a.summary.Model = m.Model
	a.summary.StopReason = m.StopReason
	if m.Usage != nil { // a backend that does not count tokens gets no accounting of them
		a.summary.Context = &domain.ContextSize{Messages: len(req.body.Messages)}
	}
	payload, err := m.Payload(a.r.cfg.MaxBytes)
	if err != nil {
		v, err := a.fail(req, ports.Reply{Model: reply.Model, Usage: reply.Usage}, fmt.Errorf("the answer cannot be stored: %w", err))
		return v, true, err
	}
	a.account(m)
	out, err := a.do(domain.AppendAssistant{
		At: a.r.Clock.Now(), Run: a.claim.Run.ID, Token: a.token, GenerationID: req.generation, Payload: payload,
		Start: mustStart(m.Content, req.offered),
	})
	if err != nil {
		return verdict{}, false, err
	}
	a.compacted = false
	if calls == 0 {
		return verdict{result: domain.Success, stopReason: m.StopReason}, true, nil
	}
	if err := context.Cause(a.ctx); err != nil {
		return verdict{}, false, err
	}
	return verdict{}, false, a.runCalls(planned(m.Content, out.Started, req.offered))
}

// account adds an answer, a failed one too, to what the attempt has used.
func (a *attempt) account(m domain.Assistant) {
	a.summary.Tokens = a.summary.Tokens.Add(m.Usage)
	a.summary.Costs = a.summary.Costs.Add(m.Cost)
}

// nameCalls gives each tool call an id that is unique in the session; the backend's own id stays beside it.
func (a *attempt) nameCalls(blocks []domain.Block) []domain.Block {
	named := make([]domain.Block, len(blocks))
	for i, b := range blocks {
		if b.Type == domain.CallBlock {
			b.ID = "call_" + strings.ReplaceAll(a.r.IDs.New(), "-", "")
		}
		named[i] = b
	}
	return named
}

func (a *attempt) timed(call domain.Block, took time.Duration, isError bool) {
	a.summary.ToolTimings = append(a.summary.ToolTimings, domain.ToolTiming{
		ToolCallID: call.ID, Name: call.Name, DurationMS: took.Milliseconds(), IsError: isError,
	})
	a.log.Debug("tool result", zap.String("tool", call.Name), zap.Duration("took", took), zap.Bool("error", isError))
}
