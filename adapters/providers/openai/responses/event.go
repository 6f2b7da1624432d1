package responses

import (
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// The members of an event, or of a whole response, that are read. Each is looked at by its kind.
type (
	event struct {
		Type         wire.Raw `json:"type"`
		OutputIndex  wire.Raw `json:"output_index"`
		ItemID       wire.Raw `json:"item_id"`
		ContentIndex wire.Raw `json:"content_index"`
		SummaryIndex wire.Raw `json:"summary_index"`
		Delta        wire.Raw `json:"delta"`
		Item         wire.Raw `json:"item"`
		Text         wire.Raw `json:"text"`
		Refusal      wire.Raw `json:"refusal"`
		Arguments    wire.Raw `json:"arguments"`
		Response     wire.Raw `json:"response"`
		Error        wire.Raw `json:"error"`
	}
	response struct {
		Object     wire.Raw `json:"object"`
		Status     wire.Raw `json:"status"`
		Model      wire.Raw `json:"model"`
		Output     wire.Raw `json:"output"`
		Usage      wire.Raw `json:"usage"`
		Incomplete wire.Raw `json:"incomplete_details"`
		Error      wire.Raw `json:"error"`
	}
	outputItem struct {
		Type             wire.Raw `json:"type"`
		ID               wire.Raw `json:"id"`
		Content          wire.Raw `json:"content"`
		Summary          wire.Raw `json:"summary"`
		EncryptedContent wire.Raw `json:"encrypted_content"`
		CallID           wire.Raw `json:"call_id"`
		Name             wire.Raw `json:"name"`
		Arguments        wire.Raw `json:"arguments"`
	}
)

// readUsage returns the counters of a usage object, nil when raw tells none. Input includes what came from a cache.
func readUsage(raw wire.Raw) *domain.Usage {
	o := wire.Object(raw)
	if wire.IsNull(o["input_tokens"]) && wire.IsNull(o["output_tokens"]) {
		return nil
	}
	in, out := wire.Object(o["input_tokens_details"]), wire.Object(o["output_tokens_details"])
	return &domain.Usage{
		Input:      wire.Count(o["input_tokens"]),
		Output:     wire.Count(o["output_tokens"]),
		CacheRead:  wire.Count(in["cached_tokens"]),
		CacheWrite: wire.Count(in["cache_write_tokens"]),
		Reasoning:  wire.Count(out["reasoning_tokens"]),
	}
}
