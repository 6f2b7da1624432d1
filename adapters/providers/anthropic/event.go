package anthropic

import (
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// The members of an event, or of a whole message, that are read. Each is looked at by its kind.
type (
	event struct {
		Type         wire.Raw `json:"type"`
		Index        wire.Raw `json:"index"`
		Message      wire.Raw `json:"message"`
		ContentBlock wire.Raw `json:"content_block"`
		Delta        wire.Raw `json:"delta"`
		Usage        wire.Raw `json:"usage"`
		Error        wire.Raw `json:"error"`
	}
	wholeMessage struct {
		Type       wire.Raw `json:"type"`
		ID         wire.Raw `json:"id"`
		Model      wire.Raw `json:"model"`
		Content    wire.Raw `json:"content"`
		StopReason wire.Raw `json:"stop_reason"`
		Usage      wire.Raw `json:"usage"`
		Error      wire.Raw `json:"error"`
	}
	// contentBlock is a block at its beginning, contentDelta a piece of it.
	contentBlock struct {
		Type      wire.Raw `json:"type"`
		Text      wire.Raw `json:"text"`
		Thinking  wire.Raw `json:"thinking"`
		Signature wire.Raw `json:"signature"`
		Data      wire.Raw `json:"data"`
		ID        wire.Raw `json:"id"`
		Name      wire.Raw `json:"name"`
		Input     wire.Raw `json:"input"`
	}
	contentDelta struct {
		Type        wire.Raw `json:"type"`
		Text        wire.Raw `json:"text"`
		Thinking    wire.Raw `json:"thinking"`
		Signature   wire.Raw `json:"signature"`
		PartialJSON wire.Raw `json:"partial_json"`
	}
)

// counters are what a usage object counts. The backend tells them more than once, and none ever falls.
type counters struct {
	told                                    bool
	input, output, written, cached, thought int64
}

func (c *counters) add(raw wire.Raw) {
	o := wire.Object(raw)
	if o == nil {
		return
	}
	c.told = c.told || !wire.IsNull(o["input_tokens"]) || !wire.IsNull(o["output_tokens"])
	c.input = max(c.input, wire.Count(o["input_tokens"]))
	c.output = max(c.output, wire.Count(o["output_tokens"]))
	c.written = max(c.written, wire.Count(o["cache_creation_input_tokens"]))
	c.cached = max(c.cached, wire.Count(o["cache_read_input_tokens"]))
	c.thought = max(c.thought, wire.Count(wire.Object(o["output_tokens_details"])["thinking_tokens"]))
}

// usage returns the counters, nil when none was told. The backend counts as input what neither came from a cache nor
// went to one; here Input is all of it.
func (c *counters) usage() *domain.Usage {
	if !c.told {
		return nil
	}
	u := &domain.Usage{Input: c.input, Output: c.output, CacheRead: c.cached, CacheWrite: c.written, Reasoning: c.thought}
	return u.Add(&domain.Usage{Input: c.cached}).Add(&domain.Usage{Input: c.written})
}
