package sqlstore

import (
	"encoding/json"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/keel-agent/keel/domain"
)

// SessionRow is a row of sessions.
type SessionRow struct {
	bun.BaseModel `bun:"table:sessions,alias:s"`

	TenantID      string  `bun:"tenant_id,pk"`
	SessionID     string  `bun:"session_id,pk"`
	CreatedAt     int64   `bun:"created_at"`
	CreateRequest *string `bun:"create_request"`
	System        string  `bun:"system"`
	Tools         *string `bun:"tools"`
	StateOwner    string  `bun:"state_owner"`
	ParentSession *string `bun:"parent_session"`
	ParentRun     *string `bun:"parent_run"`
	ParentCall    *string `bun:"parent_call"`
	ForkedFrom    *string `bun:"forked_from"`
	ForkedSeq     *int64  `bun:"forked_seq"`

	Title    string  `bun:"title"`
	Model    string  `bun:"model"`
	Metadata *string `bun:"metadata"`

	Version         int64   `bun:"version"`
	State           string  `bun:"state"`
	Owner           *string `bun:"owner"`
	Epoch           int64   `bun:"epoch"`
	HeadSeq         int64   `bun:"head_seq"`
	HeadAt          *int64  `bun:"head_at"`
	HeadHash        []byte  `bun:"head_hash"`
	Unanswered      string  `bun:"unanswered"`
	Guides          string  `bun:"guides"`
	TurnInputs      string  `bun:"turn_inputs"`
	Owed            string  `bun:"owed"`
	OpenCalls       int64   `bun:"open_calls"`
	KeptSeq         int64   `bun:"kept_seq"`
	LegacyWatermark int64   `bun:"legacy_watermark"`
	ActiveRunID     *string `bun:"active_run_id"`
}

// KeyFields returns the primary key.
func (r *SessionRow) KeyFields() []Field {
	return []Field{{"tenant_id", &r.TenantID}, {"session_id", &r.SessionID}}
}

// InfoFields returns what a patch of the session may change.
func (r *SessionRow) InfoFields() []Field {
	return []Field{{"title", &r.Title}, {"model", &r.Model}, {"metadata", &r.Metadata}}
}

// MovingFields returns what any command may change.
func (r *SessionRow) MovingFields() []Field {
	return []Field{
		{"version", &r.Version}, {"state", &r.State}, {"owner", &r.Owner}, {"epoch", &r.Epoch},
		{"head_seq", &r.HeadSeq}, {"head_at", &r.HeadAt}, {"head_hash", &r.HeadHash},
		{"unanswered", &r.Unanswered}, {"guides", &r.Guides}, {"turn_inputs", &r.TurnInputs}, {"owed", &r.Owed},
		{"open_calls", &r.OpenCalls}, {"kept_seq", &r.KeptSeq}, {"legacy_watermark", &r.LegacyWatermark},
		{"active_run_id", &r.ActiveRunID},
	}
}

// Fields returns all columns, the key first.
func (r *SessionRow) Fields() []Field {
	fields := append(r.KeyFields(), []Field{
		{"created_at", &r.CreatedAt}, {"create_request", &r.CreateRequest}, {"system", &r.System}, {"tools", &r.Tools},
		{"state_owner", &r.StateOwner}, {"parent_session", &r.ParentSession}, {"parent_run", &r.ParentRun},
		{"parent_call", &r.ParentCall}, {"forked_from", &r.ForkedFrom}, {"forked_seq", &r.ForkedSeq},
	}...)
	return append(append(fields, r.InfoFields()...), r.MovingFields()...)
}

// NewSessionRow returns the row of s.
func NewSessionRow(s *domain.Session) *SessionRow {
	r := &SessionRow{
		TenantID: s.Ref.Tenant, SessionID: s.Ref.Session, CreatedAt: s.CreatedAt.UnixMilli(),
		CreateRequest: nullable(s.CreateRequest.String()), System: EncodeText(s.System), Tools: encodeTools(s.Tools),
		StateOwner: string(s.StateOwner), Title: EncodeText(s.Title), Model: EncodeText(s.Model),
		Metadata: nullable(s.Metadata.String()), Version: s.Version, State: string(s.State), Owner: nullable(s.Owner),
		Epoch: s.Epoch, HeadSeq: int64(s.HeadSeq), HeadAt: millis(s.HeadAt), HeadHash: s.HeadHash[:],
		Unanswered: encodeSeqs(s.Unanswered), Guides: encodeSeqs(s.Guides), TurnInputs: encodeSeqs(s.TurnInputs),
		Owed: string(s.Owed), OpenCalls: int64(s.OpenCalls), KeptSeq: int64(s.KeptSeq),
		LegacyWatermark: int64(s.LegacyWatermark), ActiveRunID: nullable(s.ActiveRun),
	}
	if p := s.Parent; p != nil {
		r.ParentSession, r.ParentRun, r.ParentCall = &p.Session, nullable(p.Run), nullable(EncodeText(p.Call))
	}
	if o := s.ForkedFrom; o != nil {
		seq := int64(o.Seq)
		r.ForkedFrom, r.ForkedSeq = &o.Session, &seq
	}
	return r
}

// Session returns the session of r. It returns ErrCorrupt when the row does not hold what NewSessionRow writes.
func (r *SessionRow) Session() (*domain.Session, error) {
	d := decoder{}
	s := &domain.Session{
		Ref:           domain.SessionRef{Tenant: r.TenantID, Session: r.SessionID},
		CreatedAt:     moment(&r.CreatedAt),
		CreateRequest: domain.StoredPayload(text(r.CreateRequest)),
		SessionInfo: domain.SessionInfo{
			Title: d.text(r.Title), Model: d.text(r.Model), System: d.text(r.System), Tools: d.tools(r.Tools),
			Metadata: domain.StoredPayload(text(r.Metadata)),
		},
		State: domain.SessionState(r.State), StateOwner: domain.StateOwner(r.StateOwner),
		Version: r.Version, Owner: text(r.Owner), Epoch: r.Epoch,
		HeadSeq: domain.Seq(r.HeadSeq), HeadAt: moment(r.HeadAt), HeadHash: d.hash(r.HeadHash),
		Fold: domain.Fold{
			Unanswered: d.seqs(r.Unanswered), Guides: d.seqs(r.Guides), TurnInputs: d.seqs(r.TurnInputs),
			Owed: domain.Owed(r.Owed), OpenCalls: int(r.OpenCalls), KeptSeq: domain.Seq(r.KeptSeq),
			LegacyWatermark: domain.Seq(r.LegacyWatermark),
		},
		ActiveRun: text(r.ActiveRunID),
	}
	if r.ParentSession != nil {
		s.Parent = &domain.Parent{Session: *r.ParentSession, Run: text(r.ParentRun), Call: d.text(text(r.ParentCall))}
	}
	if r.ForkedFrom != nil && r.ForkedSeq != nil {
		s.ForkedFrom = &domain.Origin{Session: *r.ForkedFrom, Seq: domain.Seq(*r.ForkedSeq)}
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: session %q of tenant %q: %w", ErrCorrupt, r.SessionID, r.TenantID, d.err)
	}
	return s, nil
}

func encodeTools(tools []string) *string {
	if tools == nil {
		return nil
	}
	b, _ := json.Marshal(tools) // strings always marshal
	s := string(b)
	return &s
}

// decoder reads stored values and keeps the first fault.
type decoder struct{ err error }

func (d *decoder) keep(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *decoder) text(stored string) string {
	s, err := DecodeText(stored)
	d.keep(err)
	return s
}

func (d *decoder) seqs(stored string) []domain.Seq {
	seqs, err := decodeSeqs(stored)
	d.keep(err)
	return seqs
}

func (d *decoder) tools(stored *string) []string {
	if stored == nil {
		return nil
	}
	var tools []string
	d.keep(json.Unmarshal([]byte(*stored), &tools))
	return tools
}

func (d *decoder) hash(stored []byte) (h domain.Hash) {
	if copy(h[:], stored) != len(h) || len(stored) != len(h) {
		d.keep(fmt.Errorf("stored hash has %d bytes", len(stored)))
	}
	return h
}
