package gemini

import (
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// The members of a chunk that are read. Each is looked at by its kind.
type (
	chunk struct {
		Candidates     wire.Raw `json:"candidates"`
		PromptFeedback wire.Raw `json:"promptFeedback"`
		UsageMetadata  wire.Raw `json:"usageMetadata"`
		ModelVersion   wire.Raw `json:"modelVersion"`
		Error          wire.Raw `json:"error"`
	}
	candidate struct {
		Index         wire.Raw `json:"index"`
		Content       wire.Raw `json:"content"`
		FinishReason  wire.Raw `json:"finishReason"`
		FinishMessage wire.Raw `json:"finishMessage"`
	}
	content struct {
		Parts wire.Raw `json:"parts"`
	}
	answerPart struct {
		Text             wire.Raw `json:"text"`
		Thought          wire.Raw `json:"thought"`
		ThoughtSignature wire.Raw `json:"thoughtSignature"`
		FunctionCall     wire.Raw `json:"functionCall"`
		InlineData       wire.Raw `json:"inlineData"`
	}
	functionCall struct {
		ID   wire.Raw `json:"id"`
		Name wire.Raw `json:"name"`
		Args wire.Raw `json:"args"`
	}
	inlineData struct {
		MimeType wire.Raw `json:"mimeType"`
		Data     wire.Raw `json:"data"`
	}
	feedback struct {
		BlockReason wire.Raw `json:"blockReason"`
	}
)

// readUsage returns the counters of a usage object, nil when raw tells none. The backend counts thoughts beside the
// answer; here Output is both.
func readUsage(raw wire.Raw) *domain.Usage {
	o := wire.Object(raw)
	if wire.IsNull(o["promptTokenCount"]) && wire.IsNull(o["candidatesTokenCount"]) {
		return nil
	}
	u := &domain.Usage{
		Input: wire.Count(o["promptTokenCount"]), Output: wire.Count(o["candidatesTokenCount"]),
		CacheRead: wire.Count(o["cachedContentTokenCount"]), Reasoning: wire.Count(o["thoughtsTokenCount"]),
	}
	return u.Add(&domain.Usage{Input: wire.Count(o["toolUsePromptTokenCount"]), Output: u.Reasoning})
}
