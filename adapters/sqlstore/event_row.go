package sqlstore

import (
	"fmt"

	"github.com/keel-agent/keel/domain"
)

// EventRow is a row of events.
type EventRow struct {
	TenantID  string
	SessionID string
	Seq       int64
	Kind      string
	DedupeKey *string
	Payload   string
	CreatedAt int64
	Hash      []byte
	RunID     *string
	Epoch     int64
}

// KeyFields returns the session that the event belongs to.
func (r *EventRow) KeyFields() []Field {
	return []Field{{"tenant_id", &r.TenantID}, {"session_id", &r.SessionID}}
}

// BodyFields returns all columns but those of KeyFields.
func (r *EventRow) BodyFields() []Field {
	return []Field{
		{"seq", &r.Seq}, {"kind", &r.Kind}, {"dedupe_key", &r.DedupeKey}, {"payload", &r.Payload},
		{"created_at", &r.CreatedAt}, {"hash", &r.Hash}, {"run_id", &r.RunID}, {"epoch", &r.Epoch},
	}
}

// Fields returns all columns, the key first.
func (r *EventRow) Fields() []Field { return append(r.KeyFields(), r.BodyFields()...) }

// NewEventRow returns the row of e in the session ref.
func NewEventRow(ref domain.SessionRef, e *domain.Event) *EventRow {
	return &EventRow{
		TenantID: ref.Tenant, SessionID: ref.Session, Seq: int64(e.Seq), Kind: string(e.Kind), DedupeKey: nullable(e.Key),
		Payload: e.Payload.String(), CreatedAt: e.CreatedAt.UnixMilli(), Hash: e.Hash[:], RunID: nullable(e.RunID),
		Epoch: e.Epoch,
	}
}

// Event returns the event of r. It returns ErrCorrupt when the row does not hold what NewEventRow writes.
func (r *EventRow) Event() (domain.Event, error) {
	d := decoder{}
	e := domain.Event{
		Seq: domain.Seq(r.Seq), Kind: domain.Kind(r.Kind), Key: text(r.DedupeKey), Payload: domain.StoredPayload(r.Payload),
		CreatedAt: moment(&r.CreatedAt), Hash: d.hash(r.Hash), RunID: text(r.RunID), Epoch: r.Epoch,
	}
	if d.err != nil {
		return domain.Event{}, fmt.Errorf("%w: event %d: %w", ErrCorrupt, r.Seq, d.err)
	}
	return e, nil
}
