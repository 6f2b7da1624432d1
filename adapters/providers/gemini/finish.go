package gemini

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// stopReasons holds the finish reasons of this wire that end an answer.
var stopReasons = map[string]domain.StopReason{
	"STOP":       domain.StopEndTurn,
	"MAX_TOKENS": domain.StopLength,

	"SAFETY":                   domain.StopRefusal,
	"RECITATION":               domain.StopRefusal,
	"LANGUAGE":                 domain.StopRefusal,
	"BLOCKLIST":                domain.StopRefusal,
	"PROHIBITED_CONTENT":       domain.StopRefusal,
	"SPII":                     domain.StopRefusal,
	"MODEL_ARMOR":              domain.StopRefusal,
	"IMAGE_SAFETY":             domain.StopRefusal,
	"IMAGE_PROHIBITED_CONTENT": domain.StopRefusal,
	"IMAGE_RECITATION":         domain.StopRefusal,
}

// missingSignature is the finish reason of an answer that failed for want of a signature in the request.
const missingSignature = "MISSING_THOUGHT_SIGNATURE"

// faultReasons are the finish reasons that say the generation broke.
var faultReasons = map[string]bool{
	"MALFORMED_FUNCTION_CALL": true, "UNEXPECTED_TOOL_CALL": true, "TOO_MANY_TOOL_CALLS": true, "MALFORMED_RESPONSE": true,
	"NO_IMAGE": true, "IMAGE_OTHER": true, "OTHER": true, missingSignature: true,
}

// end takes a finish reason, "" for none, and what the backend says about it.
func (d *decoder) end(reason, message string) error {
	if unspecified(reason) {
		return nil
	}
	stop, known := stopReasons[reason]
	if known {
		d.finish(stop)
		return nil
	}
	e := wire.UnknownStop("finish_reason", reason)
	if faultReasons[reason] {
		e.Code, e.Message = reason, "the backend broke the answer off: "+reason
	}
	if message != "" {
		e.Message += ": " + wire.Clean(message)
	}
	return e
}

// blocked takes the reason for which the prompt gets no answer, "" for none.
func (d *decoder) blocked(reason string) {
	if !unspecified(reason) {
		d.finish(domain.StopRefusal)
	}
}

func unspecified(reason string) bool {
	return reason == "" || strings.HasSuffix(reason, "_UNSPECIFIED")
}

func (d *decoder) finish(stop domain.StopReason) {
	d.ended = wire.Graver(d.ended, stop)
	d.Stop = d.ended
}
