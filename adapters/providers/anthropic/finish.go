package anthropic

import (
	"errors"

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
		return wire.UnknownStop("stop_reason", reason)
	}
	d.full = d.full || reason == windowExceeded
	d.Stop = wire.Graver(d.Stop, stop)
	return nil
}

// Reply returns the complete answer; see wire.Draft. One for which the window had no room would meet the same end again.
func (d *decoder) Reply(asked string) (ports.Reply, error) {
	r, err := d.Draft.Reply(asked)
	if fault := (*ports.ProviderError)(nil); d.full && errors.As(err, &fault) && fault.Code == string(domain.StopLength) {
		err = &ports.ProviderError{Class: ports.Overflow, Code: windowExceeded, Message: "the context left no room in the model's window for an answer"}
	}
	return r, err
}
