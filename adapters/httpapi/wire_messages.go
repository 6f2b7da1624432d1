package httpapi

import (
	"encoding/json"
	"slices"

	"github.com/keel-agent/keel/domain"
)

// messageJSON is one message of the transcript as people read it: of a user, of the assistant with the results of its
// calls, or a summary of what was before.
type messageJSON struct {
	Seq     domain.Seq  `json:"seq"`
	Role    string      `json:"role"` // user, assistant, summary
	Content []blockJSON `json:"content"`

	RequestID string          `json:"requestId,omitempty"` // user
	Delivery  domain.Delivery `json:"delivery,omitempty"`  // user
	RetryOf   domain.Seq      `json:"retryOf,omitempty"`   // user
	Waiting   bool            `json:"waiting,omitempty"`   // user: no answer lists it yet

	StopReason   domain.StopReason `json:"stopReason,omitempty"` // assistant, as are all below
	Error        string            `json:"error,omitempty"`
	GenerationID string            `json:"generationId,omitempty"`
	InputSeqs    []domain.Seq      `json:"inputSeqs,omitempty"`
	Provider     string            `json:"provider,omitempty"`
	Model        string            `json:"model,omitempty"`
	Usage        *domain.Usage     `json:"usage,omitempty"`
	Cost         *domain.Cost      `json:"cost,omitempty"`
	Results      []resultJSON      `json:"results,omitempty"` // of its calls that have one, in call order
}

type resultJSON struct {
	ToolCallID  string      `json:"toolCallId"`
	Content     []blockJSON `json:"content"`
	IsError     bool        `json:"isError"`
	Interrupted bool        `json:"interrupted,omitempty"`
	DurationMS  int64       `json:"durationMs"`
}

// blockJSON is a block of content; which fields it has follows from its type.
type blockJSON struct {
	Type         domain.BlockType `json:"type"`
	Text         *string          `json:"text,omitempty"`
	Thinking     *string          `json:"thinking,omitempty"`
	Signature    string           `json:"signature,omitempty"`
	ID           string           `json:"id,omitempty"`
	Name         string           `json:"name,omitempty"`
	Arguments    json.RawMessage  `json:"arguments,omitempty"`
	RawArguments string           `json:"rawArguments,omitempty"`
	ProviderID   string           `json:"providerId,omitempty"`
	MimeType     string           `json:"mimeType,omitempty"`
	Data         string           `json:"data,omitempty"`
}

func toMessage(e domain.Entry, waiting []domain.Seq) messageJSON {
	m := messageJSON{Seq: e.Seq}
	switch {
	case e.Input != nil:
		m.fromInput(e.Input)
		_, m.Waiting = slices.BinarySearch(waiting, e.Seq)
	case e.Answer != nil:
		m.fromAnswer(e.Answer)
		for _, r := range e.Results {
			if r != nil {
				m.Results = append(m.Results, resultJSON{
					ToolCallID: r.ToolCallID, Content: toBlocks(r.Content), IsError: r.IsError, Interrupted: r.Interrupted,
					DurationMS: r.DurationMS,
				})
			}
		}
	default:
		m.Role, m.Content = "summary", []blockJSON{textBlock(e.Summary)}
	}
	return m
}

func (m *messageJSON) fromInput(in *domain.Input) {
	m.Role, m.RequestID, m.Delivery, m.RetryOf = "user", in.RequestID, in.Delivery, in.RetryOf
	if m.Delivery == "" {
		m.Delivery = domain.Queue
	}
	m.Content = toBlocks(in.Content)
	if in.Text != "" {
		m.Content = append([]blockJSON{textBlock(in.Text)}, m.Content...)
	}
}

func (m *messageJSON) fromAnswer(a *domain.Assistant) {
	m.Role, m.Content, m.StopReason, m.Error = "assistant", toBlocks(a.Content), a.StopReason, a.Error
	m.GenerationID, m.InputSeqs, m.Provider, m.Model, m.Usage, m.Cost = a.GenerationID, a.InputSeqs, a.Provider, a.Model, a.Usage, a.Cost
}

func toBlocks(blocks []domain.Block) []blockJSON {
	out := make([]blockJSON, 0, len(blocks))
	for _, b := range blocks {
		j := blockJSON{
			Type: b.Type, Signature: b.Signature, ID: b.ID, Name: b.Name, Arguments: json.RawMessage(b.Arguments),
			RawArguments: b.RawArguments, ProviderID: b.ProviderID, MimeType: b.MimeType, Data: b.Data,
		}
		switch {
		case b.Type == domain.TextBlock || b.Text != "":
			j.Text = &b.Text
		case b.Type == domain.ThinkingBlock:
			j.Thinking = &b.Thinking
		}
		out = append(out, j)
	}
	return out
}

func textBlock(s string) blockJSON { return blockJSON{Type: domain.TextBlock, Text: &s} }
