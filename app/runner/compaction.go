package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// How contexts are kept within what models and backends take: before a request by compaction, after a refusal by
// compaction once, and by leaving out what is old and large (docs/COMPACTION.md).

// makeRoom compacts before a request when that was asked for or the context nears the window. looked is false when it
// took time, so that the boundary has to be looked at anew.
func (a *attempt) makeRoom(req request) (looked bool, err error) {
	if a.compact {
		return false, a.compactAsked(req)
	}
	if a.r.Compactor == nil || a.unsummed {
		return true, nil
	}
	kept := a.r.Compactor.Due(a.t, a.weigh(req))
	if kept == 0 {
		return true, nil
	}
	done, err := a.summarise(req, kept)
	a.unsummed = !done
	if _, faulty := errors.AsType[*ports.ProviderError](err); faulty {
		a.log.Warn("the context nears the model's window and could not be compacted", zap.Error(err))
		err = nil
	}
	return false, err
}

// compactAsked compacts because a client asked for it, or answers that there is nothing to compact.
func (a *attempt) compactAsked(req request) error {
	if a.r.Compactor != nil {
		if kept := a.r.Compactor.Cut(a.t, a.weigh(req)); kept != 0 {
			if done, err := a.summarise(req, kept); done || err != nil {
				return err
			}
		}
	}
	_, err := a.do(domain.AppendCompaction{At: a.r.Clock.Now(), Run: a.claim.Run.ID, Token: a.token})
	return err
}

// weigh estimates what a request weighs.
func (a *attempt) weigh(req request) ports.Load {
	return a.r.Compactor.Load(req.model, req.body, a.t, a.t.Tokens(req.presented))
}

// writer returns the model that writes summaries: that of the request, unless another is configured. What the tenant's
// catalogue knows of that one holds, but not whether the tenant may ask for it.
func (a *attempt) writer(req request) (ports.Provider, domain.Model) {
	if a.r.cfg.SummaryModel == "" {
		return req.provider, req.model
	}
	p, name := a.r.Providers.Resolve(a.r.cfg.SummaryModel)
	m, _, _ := a.r.Models.Resolve(a.ctx, a.ref.Tenant, strings.TrimSuffix(p.Name()+"/"+name, "/"))
	if m.Provider != p.Name() || m.Name != name {
		m = domain.Model{Provider: p.Name(), Name: name}
	}
	return p, m
}

// summaryCost returns what the summary c, which m was asked for, cost, nil when that is not known: its model is m, or one
// that the catalogue knows.
func (a *attempt) summaryCost(m domain.Model, c domain.Compacted) *domain.Cost {
	if c.Provider != m.Provider || c.Model != m.Name {
		m = a.named(c.Provider, c.Model, m)
	}
	if c.Provider != m.Provider {
		return nil
	}
	return m.Prices.Cost(c.Usage)
}

// summarise has a summary written of what stands before kept and commits it. It reports false when the summary would be
// no shorter. Input that lands meanwhile lies behind the cut.
func (a *attempt) summarise(req request, kept domain.Seq) (done bool, err error) {
	p, m := a.writer(req)
	c, err := a.r.Compactor.Summarise(a.ctx, a.ask, p, m, a.t, kept)
	a.summary.Tokens = a.summary.Tokens.Add(c.Usage)
	c.Cost = a.summaryCost(m, c)
	a.summary.Costs = a.summary.Costs.Add(c.Cost)
	if cause := context.Cause(a.ctx); cause != nil {
		return false, cause
	}
	if err != nil {
		return false, fmt.Errorf("compaction: %w", err)
	}
	if domain.TextTokens(c.Summary) >= a.t.TokensBefore(kept) {
		a.log.Info("the summary is no shorter than what it would replace", zap.Int64("firstKeptSeq", int64(kept)))
		return false, nil
	}
	payload, err := c.Payload(a.r.cfg.MaxBytes)
	if err != nil {
		return false, permanent{fmt.Errorf("the summary cannot be stored: %w", err)}
	}
	_, err = a.do(domain.AppendCompaction{At: a.r.Clock.Now(), Run: a.claim.Run.ID, Token: a.token, Payload: payload})
	if err == nil {
		a.log.Info("compacted", zap.Int64("firstKeptSeq", int64(kept)))
	}
	return err == nil, err
}

// ask implements ports.Ask.
func (a *attempt) ask(ctx context.Context, p ports.Provider, req ports.ModelRequest) (ports.Reply, error) {
	credential, err := a.credential(p.Name())
	if err != nil {
		return ports.Reply{}, err
	}
	if err := context.Cause(ctx); err != nil { // it may have ended while the store was asked
		return ports.Reply{}, err
	}
	req.Credential = credential
	return p.Generate(ctx, req, func(ports.Delta) {})
}

// Codes of the faults that end a run from whose context nothing more can leave.
const (
	contextOverflow = "context_overflow"
	requestTooLarge = "request_too_large"
	imageRefused    = "image_refused"
)

// relieve takes from the context what a backend refused: what makes it too large, or images. over is false when the
// request can be made again, with the same inputs; v is how the attempt ends otherwise.
func (a *attempt) relieve(req request, fault error, v verdict) (_ verdict, over bool, err error) {
	var steps []func(request) (bool, error)
	code := contextOverflow
	switch a.refusal(req, fault) {
	case ports.Overflow:
		steps = append(steps, a.compactOnce, a.leaveOutOutputs, a.leaveOutImages)
	case ports.TooLarge:
		code = requestTooLarge
		steps = append(steps, a.leaveOutImages, a.compactOnce, a.leaveOutOutputs)
	case ports.BadImage:
		code = imageRefused
		steps = append(steps, a.leaveOutRefusedImages)
	default:
		return v, true, nil
	}
	for _, step := range steps {
		left, err := step(req)
		if err != nil {
			return verdict{}, true, err
		}
		if left {
			a.again = &req.presented
			return verdict{}, false, nil
		}
	}
	v.result = domain.Permanent
	v.fault = fmt.Sprintf("%s: nothing more can leave the context: %s", code, v.fault)
	return v, true, nil
}

// refusal returns Overflow or TooLarge when fault refuses the size of a request, BadImage when an image, else "". An
// invalid request that by our own estimate exceeds the window is one that is too long, however the backend words it.
func (a *attempt) refusal(req request, fault error) ports.FaultClass {
	pe, ok := errors.AsType[*ports.ProviderError](fault)
	switch {
	case !ok:
		return ""
	case pe.Class == ports.Overflow, pe.Class == ports.TooLarge, pe.Class == ports.BadImage:
		return pe.Class
	case pe.Class != ports.Fatal || pe.Status != http.StatusBadRequest && pe.Status != http.StatusUnprocessableEntity || a.r.Compactor == nil:
		return ""
	}
	if l := a.weigh(req); l.Window > 0 && l.Tokens > l.Window {
		return ports.Overflow
	}
	return ""
}

// compactOnce compacts unless it did since the last answer.
func (a *attempt) compactOnce(req request) (bool, error) {
	if a.compacted || a.r.Compactor == nil {
		return false, nil
	}
	a.compacted = true
	kept := a.r.Compactor.Cut(a.t, a.weigh(req))
	if kept == 0 {
		return false, nil
	}
	return a.summarise(req, kept)
}

func (a *attempt) leaveOutImages(request) (bool, error) { return a.t.LeaveOutImages(), nil }

func (a *attempt) leaveOutRefusedImages(req request) (bool, error) {
	return a.t.LeaveOutRefusedImages(req.presented), nil
}

func (a *attempt) leaveOutOutputs(request) (bool, error) { return a.t.LeaveOutOutputs(), nil }
