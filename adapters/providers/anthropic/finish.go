package anthropic

import (
	"cmp"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// windowExceeded is the stop reason of an answer that filled the model's window.
const windowExceeded = "model_context_window_exceeded"

// stopReasons holds the stop reasons of this wire. A reason that is not here fails the attempt.
//
// A full window and a pause are limits like the token cap: what came is an answer that was cut short. (A pause ends the
// backend's own loop over tools of its own, which this server never asks for.)
var stopReasons = map[string]domain.StopReason{
	"end_turn":      domain.StopEndTurn,
	"stop_sequence": domain.StopEndTurn,
	"tool_use":      domain.StopToolUse,
	"max_tokens":    domain.StopLength,
	"pause_turn":    domain.StopLength,
	windowExceeded:  domain.StopLength,
	"refusal":       domain.StopRefusal,
}

// end takes a stop reason, "" for none.
func (d *decoder) end(reason string) error {
	if reason == "" {
		return nil
	}
	stop, known := stopReasons[reason]
	if !known {
		return &ports.ProviderError{
			Class: ports.Retryable, Code: "stop_reason", Message: "the answer ended for an unknown reason: " + wire.Clean(reason),
		}
	}
	d.full = d.full || reason == windowExceeded
	d.stop = wire.Graver(d.stop, stop)
	return nil
}

// Reply returns the complete answer, or the fault that makes it a failed attempt with what had arrived.
func (d *decoder) Reply(asked string) (ports.Reply, error) {
	r := d.assemble(asked, d.stop == domain.StopLength || d.stop == domain.StopRefusal)
	r.StopReason = d.stop
	switch {
	case d.unnamed():
		return r, &ports.ProviderError{Class: ports.Retryable, Code: "unnamed_tool_call", Message: "a tool call ended without a name"}
	case d.stop == domain.StopEndTurn && d.calls > 0:
		r.StopReason = domain.StopToolUse
	case d.stop == domain.StopToolUse && d.calls == 0:
		return r, &ports.ProviderError{Class: ports.Retryable, Code: "missing_tool_call", Message: "the answer announced tool calls and held none"}
	}
	r, err := wire.Complete(r)
	if err != nil && d.full { // the same request would meet the same end
		err = &ports.ProviderError{Class: ports.Overflow, Code: windowExceeded, Message: "the context left no room in the model's window for an answer"}
	}
	return r, err
}

// Partial returns what had arrived of an answer that failed.
func (d *decoder) Partial(asked string) ports.Reply { return d.assemble(asked, true) }

func (d *decoder) assemble(asked string, cut bool) ports.Reply {
	r := ports.Reply{Usage: d.counts.usage(), Model: cmp.Or(d.model, asked)}
	for _, p := range d.parts {
		d.close(p)
		if b, ok := p.block(cut); ok {
			r.Content = append(r.Content, b)
		}
	}
	return r
}

func (d *decoder) unnamed() bool {
	for _, p := range d.parts {
		if p.kind == toolCall && !p.named() {
			return true
		}
	}
	return false
}
