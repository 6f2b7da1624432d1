package openai

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
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
		e := wire.UnknownStop("finish_reason", reason)
		if faultReasons[strings.ToLower(reason)] {
			e.Message = "the backend broke the answer off: " + wire.Clean(reason)
		}
		return e
	}
	d.Stop = wire.Graver(d.Stop, stop)
	return nil
}
