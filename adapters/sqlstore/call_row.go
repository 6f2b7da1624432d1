package sqlstore

import (
	"fmt"

	"github.com/keel-agent/keel/domain"
)

// CallRow is a row of tool_calls.
type CallRow struct {
	TenantID     string
	SessionID    string
	CallID       string
	AssistantSeq int64
	Ordinal      int64
	Name         string
	StartedEpoch *int64
	ResultSeq    int64 // 0 while open
}

// KeyFields returns the session that the call belongs to.
func (r *CallRow) KeyFields() []Field {
	return []Field{{"tenant_id", &r.TenantID}, {"session_id", &r.SessionID}}
}

// BodyFields returns all columns but those of KeyFields.
func (r *CallRow) BodyFields() []Field {
	return []Field{
		{"call_id", &r.CallID}, {"assistant_seq", &r.AssistantSeq}, {"ordinal", &r.Ordinal}, {"name", &r.Name},
		{"started_epoch", &r.StartedEpoch}, {"result_seq", &r.ResultSeq},
	}
}

// Fields returns all columns, the key first.
func (r *CallRow) Fields() []Field { return append(r.KeyFields(), r.BodyFields()...) }

// NewCallRow returns the row of c in the session ref.
func NewCallRow(ref domain.SessionRef, c *domain.ToolCall) *CallRow {
	return &CallRow{
		TenantID: ref.Tenant, SessionID: ref.Session, CallID: EncodeText(c.ID), AssistantSeq: int64(c.AssistantSeq),
		Ordinal: int64(c.Ordinal), Name: EncodeText(c.Name), StartedEpoch: c.StartedEpoch, ResultSeq: int64(c.ResultSeq),
	}
}

// Call returns the call of r. It returns ErrCorrupt when the row does not hold what NewCallRow writes.
func (r *CallRow) Call() (domain.ToolCall, error) {
	d := decoder{}
	c := domain.ToolCall{
		ID: d.text(r.CallID), AssistantSeq: domain.Seq(r.AssistantSeq), Ordinal: int(r.Ordinal), Name: d.text(r.Name),
		StartedEpoch: r.StartedEpoch, ResultSeq: domain.Seq(r.ResultSeq),
	}
	if d.err != nil {
		return domain.ToolCall{}, fmt.Errorf("%w: tool call %q: %w", ErrCorrupt, r.CallID, d.err)
	}
	return c, nil
}
