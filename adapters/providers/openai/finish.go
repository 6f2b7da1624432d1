package openai

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// stopReasons holds the finish reasons that a backend of this wire documents, in lower case. A reason that is not here
// fails the attempt.
var stopReasons = map[string]domain.StopReason{
	"stop":          domain.StopEndTurn,
	"eos":           domain.StopEndTurn, // Together
	"eos_token":     domain.StopEndTurn, // Text Generation Inference
	"stop_sequence": domain.StopEndTurn, // Text Generation Inference, and routers in front of Anthropic
	"end_turn":      domain.StopEndTurn, // routers in front of Anthropic

	"tool_calls":    domain.StopToolUse,
	"tool_use":      domain.StopToolUse,
	"function_call": domain.StopToolUse,

	"length":       domain.StopLength,
	"max_tokens":   domain.StopLength, // routers in front of Anthropic and Gemini
	"model_length": domain.StopLength, // Mistral

	"content_filter": domain.StopRefusal,
	"refusal":        domain.StopRefusal,
	"safety":         domain.StopRefusal, // routers in front of Gemini
	"sensitive":      domain.StopRefusal, // Zhipu
}

// faultReasons are the finish reasons that say the generation broke.
var faultReasons = map[string]bool{
	"error":                        true, // OpenRouter, Mistral
	"abort":                        true, // vLLM, SGLang
	"insufficient_system_resource": true, // DeepSeek
	"network_error":                true, // Zhipu
}

// end takes a finish reason, "" for none.
func (d *decoder) end(reason string) error {
	if reason == "" {
		return nil
	}
	stop, known := stopReasons[strings.ToLower(reason)]
	if !known {
		e := &ports.ProviderError{Class: ports.Retryable, Code: "finish_reason", Message: "the answer ended for an unknown reason: " + wire.Clean(reason)}
		if faultReasons[strings.ToLower(reason)] {
			e.Message = "the backend broke the answer off: " + wire.Clean(reason)
		}
		return e
	}
	d.finish = wire.Graver(d.finish, stop)
	return nil
}

// Reply returns the complete answer, or the fault that makes it a failed attempt with what had arrived.
func (d *decoder) Reply(asked string) (ports.Reply, error) {
	cut := d.finish == domain.StopLength || d.finish == domain.StopRefusal
	r := d.assemble(asked, cut)
	r.StopReason = d.finish
	switch {
	case d.unnamed():
		return r, &ports.ProviderError{Class: ports.Retryable, Code: "unnamed_tool_call", Message: "a tool call ended without a name"}
	case d.finish == domain.StopEndTurn && len(d.calls.all) > 0:
		r.StopReason = domain.StopToolUse
	case d.finish == domain.StopToolUse && len(d.calls.all) == 0:
		return r, &ports.ProviderError{Class: ports.Retryable, Code: "missing_tool_call", Message: "the answer announced tool calls and held none"}
	case d.finish == domain.StopEndTurn && d.refused:
		r.StopReason = domain.StopRefusal
	}
	return wire.Complete(r)
}

// Partial returns what had arrived of an answer that failed.
func (d *decoder) Partial(asked string) ports.Reply { return d.assemble(asked, true) }

func (d *decoder) assemble(asked string, cut bool) ports.Reply {
	r := ports.Reply{Usage: d.usage, Model: d.model}
	if r.Model == "" {
		r.Model = asked
	}
	for _, p := range d.parts {
		d.close(p)
		switch {
		case p.call != nil && p.call.hasName():
			b := p.call.block(cut)
			b.Name = d.ownName(b.Name)
			r.Content = append(r.Content, b)
		case p.kind == domain.ThinkingBlock && p.text.Len() > 0:
			r.Content = append(r.Content, domain.Block{Type: domain.ThinkingBlock, Thinking: p.text.String()})
		case p.kind == domain.TextBlock && p.text.Len() > 0:
			r.Content = append(r.Content, domain.Block{Type: domain.TextBlock, Text: p.text.String()})
		}
	}
	return r
}

func (d *decoder) unnamed() bool {
	for _, k := range d.calls.all {
		if !k.hasName() {
			return true
		}
	}
	return false
}
