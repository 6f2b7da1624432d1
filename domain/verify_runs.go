package domain

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// runFacts is what its row and the events say of a run.
type runFacts struct {
	row   Run // without its texts; no ID when there is no row
	first Seq // the first event that names it
	input Seq // the last input that names it
	began Seq // its first event since its last run.finished
	taken Seq // the highest queued input that an answer listed since

	finished      string // the status of its last run.finished, of the three below
	finishedSeq   Seq
	finishedEpoch int64
	finishedAt    time.Time
	late          bool // that is the time of the event before, and may be later than what the clock said
	watermark     Seq
}

// facts returns what is known of the run that e names.
func (v *Verifier) facts(e Event) *runFacts {
	f, ok := v.runs[e.RunID]
	if !ok {
		f = &runFacts{}
		v.runs[strings.Clone(e.RunID)] = f
	}
	return f
}

// note adds an event of the run, which the fold has and the head has not yet.
func (f *runFacts) note(v *Verifier, e Event, class Class, said fact) {
	if f.first == 0 {
		f.first = e.Seq
	}
	if class == ClassEdge {
		f.input = e.Seq
		return
	}
	if f.row.ID != "" && e.Epoch > f.row.Epoch {
		v.fault(e.Seq, "epoch", "is %d, its run's is %d", e.Epoch, f.row.Epoch)
	}
	if f.began == 0 {
		f.began = e.Seq
	}
	f.taken = max(f.taken, v.queued)
	if e.Kind != RunFinished {
		return
	}
	f.taken, f.began, f.finished, f.finishedSeq, f.finishedEpoch = 0, 0, strings.Clone(said.status), e.Seq, e.Epoch
	f.finishedAt, f.late = e.CreatedAt, e.CreatedAt.Equal(v.head.CreatedAt)
	if said.status == finishedDone {
		s := Session{HeadSeq: e.Seq, Fold: v.fold}
		f.watermark = max(f.watermark, s.answeredUpTo())
	}
}

// queued returns the highest of the inputs that m lists beside those that the turn had and those stored as guide: the
// run's claim_seq is not below it.
func (f *Fold) queued(m Assistant) (highest Seq) {
	for _, seq := range m.InputSeqs {
		if !slices.Contains(f.Guides, seq) && !slices.Contains(f.TurnInputs, seq) {
			highest = max(highest, seq)
		}
	}
	return highest
}

// Run reads a run row.
func (v *Verifier) Run(r Run) {
	v.checkRow(r)
	if r.Epoch > 0 {
		if other, ok := v.lasts[r.Epoch]; ok {
			v.runFault(r.ID, "epoch", "is %d, as is that of %s", r.Epoch, quoteJSON(other))
		}
		v.lasts[r.Epoch] = r.ID
	}
	if r.Status.Active() {
		v.active = append(v.active, r.ID)
	}
	r.Wait = ""
	if r.Error != "" {
		r.Error = "an error"
	}
	r.Ref, r.Reason = SessionRef{}, strings.Clone(r.Reason)
	v.runs[r.ID] = &runFacts{row: r}
}

// reasons are those that a run in a state may have.
var reasons = map[RunStatus][]string{
	StatusPending: {"", ReasonFailed, ReasonMoreInput, ReasonHandBack, ReasonRescued},
	StatusRunning: {"", ReasonFailed, ReasonMoreInput, ReasonHandBack, ReasonRescued},
	StatusDone:    {"", ReasonNoWork},
	StatusFailed:  {ReasonCancelled, ReasonPermanent, ReasonExhausted},
}

// checkRow checks what no run row may say, whatever the events are.
func (v *Verifier) checkRow(r Run) {
	head := v.s.HeadSeq
	running, pending := r.Status == StatusRunning, r.Status == StatusPending
	cancelled := r.CancelSeq != nil
	settled := r.Ended.Command == endedSettle && !running // so a turn is over
	for _, rule := range []struct {
		broken bool
		column string
		value  any
	}{
		{reasons[r.Status] == nil, "status", r.Status},
		{reasons[r.Status] != nil && !slices.Contains(reasons[r.Status], r.Reason), "reason", r.Reason},
		{running != (r.Owner != ""), "owner", r.Owner},
		{r.Parked && (!pending || cancelled || r.Ended.Command != endedPark), "parked", r.Parked},
		{r.Wait != "" && !r.Parked, "wait", r.Wait},
		{r.Epoch < 0 || r.Epoch > v.s.Epoch || running && r.Epoch != v.s.Epoch, "epoch", r.Epoch},
		{r.Attempts < 0 || int64(r.Attempts) > r.Epoch || running && r.Attempts == 0 || r.Parked && r.Attempts > 0, "attempts", r.Attempts},
		{r.Signals < 0, "signals", r.Signals},
		{r.Compact && r.Status == StatusDone, "compact", r.Compact},
		{running != (r.Ended.Epoch < r.Epoch) || r.Ended.Epoch < 0 || r.Ended.Epoch > r.Epoch, "ended_epoch", r.Ended.Epoch},
		{!r.endedWell(), "ended_outcome", encodedEnd(r.Ended)},
		{outside(r.ClaimSeq, head) || (r.ClaimSeq == nil) != (r.Epoch == 0 || settled), "claim_seq", orNone(r.ClaimSeq)},
		{outside(r.CancelSeq, head) || !r.Status.Active() && cancelled != (r.Reason == ReasonCancelled), "cancel_seq", orNone(r.CancelSeq)},
		{r.NextRunID == r.ID || r.NextRunID != "" && !cancelled, "next_run_id", r.NextRunID},
		{r.ReadWatermark < 0 || r.ReadWatermark > head, "read_watermark", r.ReadWatermark},
		{r.SettledAt.IsZero() != r.Status.Active(), "settled_at", r.SettledAt},
	} {
		if rule.broken {
			v.runFault(r.ID, rule.column, "is %v for a run that is %s in epoch %d of %d events", rule.value, r.Status, r.Epoch, head)
		}
	}
}

// endedWell reports whether the last attempt of r ended as one can, and left the run as it is.
func (r *Run) endedWell() bool {
	final := r.Ended.Command == endedSettle && !r.Ended.Status.Active()
	switch r.Ended.Command {
	case "":
		return r.Ended.Epoch == 0 && r.Ended.Status == "" && (r.Status.Active() || r.Reason == ReasonNoWork)
	case endedSettle, endedPark, endedHandBack, endedRescue:
	default:
		return false
	}
	if r.Status.Active() || r.Reason == ReasonNoWork {
		return r.Ended.Epoch > 0 && r.Ended.Status == StatusPending
	}
	return r.Ended.Epoch > 0 && final && r.Ended.Status == r.Status
}

func encodedEnd(e Ended) string { return e.Command + ":" + string(e.Status) }

func outside(seq *Seq, head Seq) bool { return seq != nil && (*seq < 0 || *seq > head) }

func orNone(seq *Seq) any {
	if seq == nil {
		return "none"
	}
	return *seq
}

// finishRuns compares the run rows with the events.
func (v *Verifier) finishRuns() {
	next := map[string]bool{} // what rows promise
	for _, f := range v.runs {
		if f.row.NextRunID != "" {
			next[f.row.NextRunID] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.runs)) {
		f := v.runs[id]
		switch {
		case f.row.ID != "":
			v.finishRun(f)
		case !next[id] || f.input == 0 || f.began > 0 || f.finishedSeq > 0:
			v.fault(f.first, "run_id", "there is no run %s of this session", quoteJSON(id))
		}
	}
}

func (v *Verifier) finishRun(f *runFacts) {
	r := &f.row
	v.finishEnd(f)
	if r.ReadWatermark != f.watermark {
		v.runFault(r.ID, "read_watermark", "is %d, the events give %d", r.ReadWatermark, f.watermark)
	}
	if r.Error != "" && f.finished != finishedFailed {
		v.runFault(r.ID, "error", "is set, but no attempt failed last")
	}
	if c := r.ClaimSeq; c != nil && (*c < max(f.taken, f.finishedSeq) || f.began > 0 && *c >= f.began) {
		v.runFault(r.ID, "claim_seq", "is %d, but its turn began after event %d and before event %d", *c, max(f.taken, f.finishedSeq), f.began)
	}
	if c := r.CancelSeq; c != nil && (*c < f.input || !r.Status.Active() && *c >= f.finishedSeq) {
		v.runFault(r.ID, "cancel_seq", "is %d, but its last input is event %d and its last run.finished event %d", *c, f.input, f.finishedSeq)
	}
	if r.NextRunID != "" && !r.Status.Active() && v.s.State == SessionOpen && v.runs[r.NextRunID] == nil {
		v.runFault(r.ID, "next_run_id", "there is no run %s of this session", quoteJSON(r.NextRunID))
	}
}

// finishEnd compares how the last attempt ended, by the row, with the last run.finished.
func (v *Verifier) finishEnd(f *runFacts) {
	r := &f.row
	settled := r.Ended.Command == endedSettle
	if f.finishedEpoch > r.Ended.Epoch || settled != (f.finishedEpoch > 0 && f.finishedEpoch == r.Ended.Epoch) {
		v.runFault(r.ID, "ended_outcome", "is %s in epoch %d, the last run.finished is of epoch %d",
			encodedEnd(r.Ended), r.Ended.Epoch, f.finishedEpoch)
		return
	}
	var want []string
	switch {
	case !r.Status.Active() && r.Reason == ReasonNoWork:
		want = []string{ReasonNoWork}
	case settled:
		if want = settledReasons(f.finished, r.Ended.Status); want == nil {
			v.runFault(r.ID, "ended_outcome", "is %s, the last run.finished says %s", encodedEnd(r.Ended), f.finished)
			return
		}
	case r.Ended.Command == endedHandBack:
		want = []string{ReasonHandBack}
	case r.Ended.Command == endedRescue:
		want = []string{ReasonRescued}
	case r.Ended.Command == endedPark: // keeps what it had
		want = reasons[StatusPending]
	default:
		want = []string{""}
	}
	if !slices.Contains(want, r.Reason) {
		v.runFault(r.ID, "reason", "is %s, the events give one of %q", quoteJSON(r.Reason), want)
	}
	if settled && !r.Status.Active() && r.Reason != ReasonNoWork {
		v.finishFinal(f)
	}
}

// settledReasons returns the reasons of a run that a settlement left in a status, nil when it cannot.
func settledReasons(finished string, status RunStatus) []string {
	switch finished + " " + string(status) {
	case finishedDone + " " + string(StatusDone):
		return []string{""}
	case finishedDone + " " + string(StatusPending):
		return []string{ReasonMoreInput}
	case finishedFailed + " " + string(StatusPending):
		return []string{ReasonFailed}
	case finishedFailed + " " + string(StatusFailed):
		return []string{ReasonPermanent, ReasonExhausted}
	case finishedCancelled + " " + string(StatusFailed):
		return []string{ReasonCancelled}
	}
	return nil
}

// finishFinal checks a run that its last run.finished ended for good.
func (v *Verifier) finishFinal(f *runFacts) {
	r := &f.row
	if f.input > f.finishedSeq {
		v.fault(f.input, "run_id", "the run %s ended at event %d", quoteJSON(r.ID), f.finishedSeq)
	}
	if at := r.SettledAt; !at.Equal(f.finishedAt) && (!f.late || at.After(f.finishedAt)) {
		v.runFault(r.ID, "settled_at", "is %v, the events give %v", at, f.finishedAt)
	}
}

// finishSession checks what the session's row says of its runs.
func (v *Verifier) finishSession() {
	s := &v.s
	for _, id := range v.active {
		if id != s.ActiveRun {
			v.fault(0, "active_run_id", "the row says %q, but the run %q is %s", s.ActiveRun, id, v.runs[id].row.Status)
		}
	}
	run := Run{}
	if f := v.runs[s.ActiveRun]; f != nil {
		run = f.row
	}
	epoch := int64(0)
	for last := range v.lasts {
		epoch = max(epoch, last)
	}
	compare(v, "epoch", epoch, s.Epoch)
	switch {
	case s.ActiveRun == "":
	case run.ID == "":
		v.fault(0, "active_run_id", "there is no run %q of this session", s.ActiveRun)
	case !run.Status.Active():
		v.fault(0, "active_run_id", "the run %q is %s", run.ID, run.Status)
	}
	switch {
	case s.Owner != "" && run.ID == "":
		v.fault(0, "owner", "the row says %q, but no run is active", s.Owner)
	case s.Owner != run.Owner:
		v.fault(0, "owner", "the row says %q, its run says %q", s.Owner, run.Owner)
	}
	v.finishState(run)
}

func (v *Verifier) finishState(run Run) {
	s := &v.s
	switch s.State {
	case SessionOpen:
	case SessionClosing:
		if run.CancelSeq == nil {
			v.fault(0, "state", "the row says closing, but no run is being cancelled")
		}
	case SessionClosed:
		if s.ActiveRun != "" {
			v.fault(0, "state", "the row says closed, but the run %q is active", s.ActiveRun)
		}
	default:
		v.fault(0, "state", "the row says %q", s.State)
	}
	switch {
	case s.StateOwner != Native && s.StateOwner != External:
		v.fault(0, "state_owner", "the row says %q", s.StateOwner)
	case v.misfit.Seq > 0:
		v.fault(0, "state_owner", "the row says %s, but event %d is a %s", s.StateOwner, v.misfit.Seq, v.misfit.Kind)
	case s.StateOwner == External && len(v.runs) > 0:
		v.fault(0, "state_owner", "the row says external, but there are runs")
	}
	own := s.HeadSeq // each event and each claim was a write
	if o := s.ForkedFrom; o != nil {
		if own -= o.Seq; o.Seq < 1 || own < 0 {
			v.fault(0, "forked_seq", "the row says %d of %d events", o.Seq, s.HeadSeq)
		}
	}
	if least := 1 + int64(own) + s.Epoch; s.Version < least {
		v.fault(0, "version", "the row says %d, the events and claims give at least %d", s.Version, least)
	}
}

func (v *Verifier) runFault(run, column, format string, args ...any) {
	v.fault(0, "runs."+column, "run %s: "+format, append([]any{quoteJSON(run)}, args...)...)
}
