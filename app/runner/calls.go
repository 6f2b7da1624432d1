package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// plannedCall is an open tool call and what may be done with it.
type plannedCall struct {
	block domain.Block
	tool  offeredTool

	started bool   // this attempt may execute it
	refusal string // why it gets a result without being executed, "" when it may run
	standIn bool   // the result is a stand-in: an earlier attempt may have executed the call
}

// planned are the calls of an answer that this attempt just committed.
func planned(blocks []domain.Block, started []string, offered map[string]offeredTool) []plannedCall {
	var plan []plannedCall
	for _, b := range blocks {
		if b.Type == domain.CallBlock {
			tool, known := offered[b.Name]
			plan = append(plan, plannedCall{
				block: b, tool: tool, started: slices.Contains(started, b.ID), refusal: refusal(b, known),
			})
		}
	}
	return plan
}

// refusal says why a call can never be executed.
func refusal(b domain.Block, known bool) string {
	switch {
	case !known:
		return fmt.Sprintf("There is no tool named %q.", b.Name)
	case b.Arguments == "":
		return "The arguments are not one JSON object, so the call was not executed: " + clip(b.RawArguments, 500)
	default:
		return ""
	}
}

const interruptedByRestart = "The call was interrupted and may have had effects; its outcome is unknown."

// resumeCalls deals with the calls that an earlier attempt of the turn left open (protocol.md §6): one that never
// started, or whose tool may run again, is executed; any other gets a stand-in.
func (a *attempt) resumeCalls() error {
	pending := a.t.Pending()
	if len(pending) == 0 {
		return nil
	}
	rows, err := retried(a, func(ctx context.Context) ([]domain.ToolCall, error) {
		return a.r.Runs.OpenCalls(ctx, a.ref)
	})
	if err != nil {
		return err
	}
	now, err := a.choose(a.t.Present(*a.claim.Run.ClaimSeq, nil))
	if err != nil {
		return err
	}
	plan := planned(pending, nil, now.offered)
	for i := range plan {
		c := &plan[i]
		row := slices.IndexFunc(rows, func(r domain.ToolCall) bool { return r.ID == c.block.ID })
		mayHaveRun := row < 0 || rows[row].StartedEpoch != nil
		if c.refusal == "" && mayHaveRun && !c.tool.spec.ReplaySafe {
			c.refusal, c.standIn = interruptedByRestart, true
		}
	}
	return a.runCalls(plan)
}

// finished is the result of one call on its way to the ledger. A tool that was stopped by the end of its context has
// none: the call gets a stand-in, or goes on under the next owner.
type finished struct {
	call    plannedCall
	out     domain.ToolOutput
	stopped bool
}

// runCalls executes calls side by side, sequential ones one after the other beside them, and commits each result as it
// comes. When the attempt must stop it does not wait for tools that ignore that.
func (a *attempt) runCalls(plan []plannedCall) error {
	results := make(chan finished, len(plan))
	var inOrder []plannedCall
	for _, c := range plan {
		runs, err := a.begin(c, results)
		switch {
		case err != nil:
			return err
		case runs && c.tool.spec.Sequential:
			inOrder = append(inOrder, c)
		case runs:
			go func() { results <- a.execute(c) }()
		}
	}
	go a.executeInOrder(inOrder, results)
	for range plan {
		select {
		case f := <-results:
			if f.stopped {
				return a.commitReady(results)
			}
			if err := a.commitResult(f); err != nil {
				return err
			}
		case <-a.ctx.Done():
			return a.commitReady(results)
		}
	}
	return nil
}

// commitReady commits the results that are there already and returns why the attempt must stop.
func (a *attempt) commitReady(results <-chan finished) error {
	for {
		select {
		case f := <-results:
			if f.stopped {
				continue
			}
			if err := a.commitResult(f); err != nil {
				return err
			}
		default:
			return context.Cause(a.ctx)
		}
	}
}

// begin reports whether a call is to be executed, and marks it as started where that is needed. The result of one that
// is refused goes to results, which has room for it.
func (a *attempt) begin(c plannedCall, results chan<- finished) (runs bool, err error) {
	if c.refusal != "" {
		out := failedCall(c.block.ID, c.refusal)
		out.Interrupted = c.standIn
		results <- finished{call: c, out: out}
		return false, nil
	}
	if err := context.Cause(a.ctx); err != nil {
		return false, err
	}
	if !c.started && !c.tool.spec.ReplaySafe {
		_, err := a.do(domain.StartCalls{Run: a.claim.Run.ID, Token: a.token, Calls: []string{c.block.ID}})
		if errors.Is(err, domain.ErrCancelled) {
			a.stop(errCancelRequested)
			return false, errCancelRequested
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// executeInOrder runs calls one after the other. Once the attempt must stop it begins no more.
func (a *attempt) executeInOrder(calls []plannedCall, results chan<- finished) {
	for _, c := range calls {
		if a.ctx.Err() != nil {
			results <- finished{call: c, stopped: true}
			continue
		}
		results <- a.execute(c)
	}
}

// execute runs a tool; a panic in it is its failure.
func (a *attempt) execute(c plannedCall) (f finished) {
	f.call = c
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("tool panicked", zap.String("tool", c.block.Name), zap.Any("panic", p), zap.Stack("stack"))
			f.out = failedCall(c.block.ID, fmt.Sprintf("the tool crashed: %v", p))
		}
		f.out.DurationMS = time.Since(began).Milliseconds()
	}()
	got, err := c.tool.set.Execute(a.ctx, ports.ToolInvocation{
		Ref: a.ref, ID: c.block.ID, Name: c.block.Name, Arguments: c.block.Arguments,
	})
	f.stopped = err != nil && a.ctx.Err() != nil
	f.out = domain.ToolOutput{ToolCallID: c.block.ID, Content: got.Content, IsError: got.IsError}
	if err != nil {
		f.out = failedCall(c.block.ID, err.Error())
	}
	return f
}

func failedCall(id, why string) domain.ToolOutput {
	return domain.ToolOutput{ToolCallID: id, IsError: true, Content: []domain.Block{{Type: domain.TextBlock, Text: why}}}
}

// commitResult commits the result of a call. A result that another attempt committed first stands.
func (a *attempt) commitResult(f finished) error {
	payload, err := f.out.Payload(a.r.cfg.MaxBytes)
	if err != nil {
		f.out = failedCall(f.out.ToolCallID, "The tool's output cannot be stored: "+err.Error())
		if payload, err = f.out.Payload(a.r.cfg.MaxBytes); err != nil {
			return err
		}
	}
	a.timed(f.call.block, time.Duration(f.out.DurationMS)*time.Millisecond, f.out.IsError)
	err = a.appendResult(f.out.ToolCallID, payload)
	if errors.Is(err, domain.ErrIdempotencyConflict) {
		return a.sync()
	}
	return err
}

func (a *attempt) appendResult(call string, payload domain.Payload) error {
	_, err := a.do(domain.AppendToolResult{At: a.r.Clock.Now(), Run: a.claim.Run.ID, Token: a.token, Call: call, Payload: payload})
	return err
}

// standInForOpen commits a stand-in for each open call, so that the history is well formed for ever.
func (a *attempt) standInForOpen() error {
	if a.told.open == 0 {
		return nil
	}
	if err := a.sync(); err != nil {
		return err
	}
	for _, b := range a.t.Pending() {
		payload, err := domain.Interrupted(b.ID, a.whyInterrupted()).Payload(a.r.cfg.MaxBytes)
		if err != nil {
			return err
		}
		if err := a.appendResult(b.ID, payload); err != nil && !errors.Is(err, domain.ErrIdempotencyConflict) {
			return err
		}
	}
	return nil
}

func (a *attempt) whyInterrupted() string {
	if errors.Is(context.Cause(a.ctx), errCancelRequested) || a.claim.Mode == domain.ClaimCancelled {
		return "The call was interrupted: the user cancelled."
	}
	return interruptedByRestart
}
