package sqlstore

import (
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/keel-agent/keel/domain"
)

// RunRow is a row of runs.
type RunRow struct {
	bun.BaseModel `bun:"table:runs,alias:r"`

	RunID     string `bun:"run_id,pk"`
	TenantID  string `bun:"tenant_id"`
	SessionID string `bun:"session_id"`
	CreatedAt int64  `bun:"created_at"`

	Status        string  `bun:"status"`
	Reason        *string `bun:"reason"`
	Error         *string `bun:"error"`
	Owner         *string `bun:"owner"`
	Epoch         int64   `bun:"epoch"`
	Attempts      int64   `bun:"attempts"`
	AvailableAt   int64   `bun:"available_at"`
	Parked        bool    `bun:"parked"`
	Wait          *string `bun:"wait"`
	Signals       int64   `bun:"signals"`
	Compact       bool    `bun:"compact"`
	ClaimSeq      *int64  `bun:"claim_seq"`
	CancelSeq     *int64  `bun:"cancel_seq"`
	NextRunID     *string `bun:"next_run_id"`
	PendingInput  bool    `bun:"pending_input"`
	ReadWatermark int64   `bun:"read_watermark"`
	EndedEpoch    int64   `bun:"ended_epoch"`
	EndedOutcome  *string `bun:"ended_outcome"`
	SettledAt     *int64  `bun:"settled_at"`
}

// KeyFields returns the primary key and the session that the run belongs to.
func (r *RunRow) KeyFields() []Field {
	return []Field{{"run_id", &r.RunID}, {"tenant_id", &r.TenantID}, {"session_id", &r.SessionID}}
}

// MovingFields returns what any command may change, available_at excepted: the store's clock sets that.
func (r *RunRow) MovingFields() []Field {
	return []Field{
		{"status", &r.Status}, {"reason", &r.Reason}, {"error", &r.Error}, {"owner", &r.Owner}, {"epoch", &r.Epoch},
		{"attempts", &r.Attempts}, {"parked", &r.Parked}, {"wait", &r.Wait}, {"signals", &r.Signals},
		{"compact", &r.Compact}, {"claim_seq", &r.ClaimSeq}, {"cancel_seq", &r.CancelSeq},
		{"next_run_id", &r.NextRunID}, {"pending_input", &r.PendingInput}, {"read_watermark", &r.ReadWatermark},
		{"ended_epoch", &r.EndedEpoch}, {"ended_outcome", &r.EndedOutcome}, {"settled_at", &r.SettledAt},
	}
}

// FixedFields returns what is set at the insert, beside the key.
func (r *RunRow) FixedFields() []Field { return []Field{{"created_at", &r.CreatedAt}} }

// DueFields returns available_at.
func (r *RunRow) DueFields() []Field { return []Field{{"available_at", &r.AvailableAt}} }

// Fields returns all columns, the key first.
func (r *RunRow) Fields() []Field {
	return append(append(append(r.KeyFields(), r.FixedFields()...), r.DueFields()...), r.MovingFields()...)
}

// NewRunRow returns the row of run.
func NewRunRow(run *domain.Run) *RunRow {
	row := &RunRow{
		RunID: run.ID, TenantID: run.Ref.Tenant, SessionID: run.Ref.Session, CreatedAt: run.CreatedAt.UnixMilli(),
		Status: string(run.Status), Reason: nullable(run.Reason), Error: nullable(EncodeText(run.Error)),
		Owner: nullable(run.Owner), Epoch: run.Epoch, Attempts: int64(run.Attempts), Parked: run.Parked,
		Wait: nullable(EncodeText(run.Wait)), Signals: run.Signals, Compact: run.Compact,
		ClaimSeq: nullableSeq(run.ClaimSeq), CancelSeq: nullableSeq(run.CancelSeq), NextRunID: nullable(run.NextRunID),
		PendingInput: run.PendingInput, ReadWatermark: int64(run.ReadWatermark), EndedEpoch: run.Ended.Epoch,
		EndedOutcome: encodeEnded(run.Ended), SettledAt: millis(run.SettledAt),
	}
	if !run.AvailableAt.IsZero() {
		row.AvailableAt = run.AvailableAt.UnixMilli()
	}
	return row
}

// Run returns the run of r. It returns ErrCorrupt when the row does not hold what NewRunRow writes.
func (r *RunRow) Run() (*domain.Run, error) {
	d := decoder{}
	run := &domain.Run{
		ID: r.RunID, Ref: domain.SessionRef{Tenant: r.TenantID, Session: r.SessionID}, CreatedAt: moment(&r.CreatedAt),
		Status: domain.RunStatus(r.Status), Reason: text(r.Reason), Error: d.text(text(r.Error)), Owner: text(r.Owner),
		Epoch: r.Epoch, Attempts: int(r.Attempts), AvailableAt: moment(&r.AvailableAt), Parked: r.Parked,
		Wait: d.text(text(r.Wait)), Signals: r.Signals, Compact: r.Compact, ClaimSeq: optionalSeq(r.ClaimSeq),
		CancelSeq: optionalSeq(r.CancelSeq), NextRunID: text(r.NextRunID), PendingInput: r.PendingInput,
		ReadWatermark: domain.Seq(r.ReadWatermark), Ended: d.ended(r.EndedEpoch, r.EndedOutcome),
		SettledAt: moment(r.SettledAt),
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: run %q: %w", ErrCorrupt, r.RunID, d.err)
	}
	return run, nil
}

func encodeEnded(e domain.Ended) *string {
	if e.Command == "" {
		return nil
	}
	s := e.Command + ":" + string(e.Status)
	return &s
}

func (d *decoder) ended(epoch int64, outcome *string) domain.Ended {
	e := domain.Ended{Epoch: epoch}
	if outcome == nil {
		return e
	}
	command, status, ok := strings.Cut(*outcome, ":")
	if !ok {
		d.keep(fmt.Errorf("stored ended_outcome %q", *outcome))
	}
	e.Command, e.Status = command, domain.RunStatus(status)
	return e
}
