package openai

import (
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// The members of a chunk, or of a whole completion, that are read. Each is looked at by its kind: backends send null,
// an empty list, a number for a string and the other way round.
type (
	chunk struct {
		Model   wire.Raw `json:"model"`
		Choices wire.Raw `json:"choices"`
		Usage   wire.Raw `json:"usage"`
		Error   wire.Raw `json:"error"`
		Errors  wire.Raw `json:"errors"`
		Object  wire.Raw `json:"object"`
		Type    wire.Raw `json:"type"`
	}
	choice struct {
		Index        wire.Raw `json:"index"`
		Delta        wire.Raw `json:"delta"`
		Message      wire.Raw `json:"message"` // in place of delta: in a completion, and in some last chunks
		FinishReason wire.Raw `json:"finish_reason"`
		Error        wire.Raw `json:"error"`
	}
	delta struct {
		Content          wire.Raw `json:"content"`
		Refusal          wire.Raw `json:"refusal"`
		ReasoningContent wire.Raw `json:"reasoning_content"`
		Reasoning        wire.Raw `json:"reasoning"`
		ReasoningDetails wire.Raw `json:"reasoning_details"`
		ToolCalls        wire.Raw `json:"tool_calls"`
		FunctionCall     wire.Raw `json:"function_call"`
	}
	callPiece struct {
		Index    wire.Raw `json:"index"`
		ID       wire.Raw `json:"id"`
		Function wire.Raw `json:"function"`
	}
	functionPiece struct {
		Name      wire.Raw `json:"name"`
		Arguments wire.Raw `json:"arguments"`
	}
)

// faulty reports whether c tells an error.
func (c chunk) faulty() bool {
	return wire.IsError(c.Error) || wire.IsError(c.Errors) || wire.CallsItselfError(c.Object) || wire.CallsItselfError(c.Type)
}

// readUsage returns the counters of a usage object, nil when raw tells none. Input includes what came from a cache.
func readUsage(raw wire.Raw) *domain.Usage {
	o := wire.Object(raw)
	if wire.IsNull(o["prompt_tokens"]) && wire.IsNull(o["completion_tokens"]) {
		return nil
	}
	prompt, completion := wire.Object(o["prompt_tokens_details"]), wire.Object(o["completion_tokens_details"])
	u := &domain.Usage{
		Input:      wire.Count(o["prompt_tokens"]),
		Output:     wire.Count(o["completion_tokens"]),
		CacheRead:  wire.Count(prompt["cached_tokens"]),
		CacheWrite: wire.Count(prompt["cache_write_tokens"]),
		Reasoning:  wire.Count(completion["reasoning_tokens"]),
	}
	if u.CacheRead == 0 {
		u.CacheRead = wire.Count(o["prompt_cache_hit_tokens"])
	}
	return u
}

// list returns the elements of an array; a single object counts as a list of one.
func list(raw wire.Raw) []wire.Raw {
	if len(raw) > 0 && raw.Kind() == '{' {
		return []wire.Raw{raw}
	}
	return wire.Array(raw)
}
