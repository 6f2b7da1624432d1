package check

import (
	"cmp"
	"fmt"
	"slices"
)

// Kind names what was violated.
type Kind string

// The kinds of violations.
const (
	LostInput      Kind = "lost_input"      // acknowledged, and not in the ledger
	DoubledInput   Kind = "doubled_input"   // in the ledger more than once
	ChangedInput   Kind = "changed_input"   // in the ledger with another content
	UnknownInput   Kind = "unknown_input"   // in the ledger, and nobody sent it
	Unacknowledged Kind = "unacknowledged"  // never acknowledged, although the client went on to the end
	AckDiffers     Kind = "ack_differs"     // an acknowledgement at odds with the ledger, or with another one
	Slow           Kind = "slow"            // acknowledged later than the client's patience lasts
	Gap            Kind = "gap"             // the seqs are not 1..n
	Malformed      Kind = "malformed"       // a payload that cannot be read
	ResultTwice    Kind = "result_twice"    // a second result of a call
	ResultOrphan   Kind = "result_orphan"   // a result of no committed call
	ResultMissing  Kind = "result_missing"  // a call without a result behind it
	ResultWrong    Kind = "result_wrong"    // another result than the tool gives
	EpochBack      Kind = "epoch_back"      // a commit of an attempt that another one had followed
	LateCommit     Kind = "late_commit"     // a commit of an attempt behind its own run.finished
	FinishedTwice  Kind = "finished_twice"  // two run.finished of one attempt
	StatusDiffers  Kind = "status_differs"  // a run's row at odds with its last run.finished
	Unanswered     Kind = "unanswered"      // an input without an answer that nothing excuses
	AnsweredTwice  Kind = "answered_twice"  // an input listed again behind the answer that ended its turn
	WrongContext   Kind = "wrong_context"   // an answer that was not made from the inputs that it should know
	TwoRuns        Kind = "two_runs"        // two active runs of one session
	NotQuiet       Kind = "not_quiet"       // a run that has not ended in time
	Uncaused       Kind = "uncaused_cancel" // a run that was cancelled though nobody asked for it
	StreamGap      Kind = "stream_gap"      // a reader missed or repeated a seq
	StreamDiffers  Kind = "stream_differs"  // a reader got another event than the ledger has
	StreamShort    Kind = "stream_short"    // a reader did not get all of the ledger
	PartialDurable Kind = "partial_durable" // a partial that moved the cursor
	Foreign        Kind = "foreign"         // something of one session or tenant in another
	EffectTwice    Kind = "effect_twice"    // a call executed again that may not be
	EffectUnknown  Kind = "effect_unknown"  // executed without a committed call, or a result without an execution
	Rewritten      Kind = "rewritten"       // the ledger changed where it had been written
	Refused        Kind = "refused"         // a request that should have been accepted
	ServerDied     Kind = "server_died"     // a server ended and nobody made it
	VerifyFault    Kind = "verify"          // a fault that keel verify found
)

// Violation is a broken promise and where to look.
type Violation struct {
	Kind    Kind
	Tenant  string
	Session string
	Seqs    []int64
	Detail  string
}

func (v Violation) String() string {
	at := ""
	if v.Session != "" {
		at = fmt.Sprintf(" %s/%s", v.Tenant, v.Session)
	}
	if len(v.Seqs) > 0 {
		at += fmt.Sprintf(" %v", v.Seqs)
	}
	return fmt.Sprintf("%s%s: %s", v.Kind, at, v.Detail)
}

// key names a session.
type key struct{ tenant, session string }

// book is one session's share of the ledger and of the history.
type book struct {
	key
	events  []Event
	bodies  []payload
	runs    []Run
	submits []Submit
	reads   []Read
	effects []Effect
	cancels map[string]bool
	found   *[]Violation
}

func (b *book) say(kind Kind, detail string, seqs ...int64) {
	*b.found = append(*b.found, Violation{kind, b.tenant, b.session, seqs, detail})
}

func (b *book) at(seq int64) (Event, payload, bool) {
	if seq < 1 || seq > int64(len(b.events)) {
		return Event{}, payload{}, false
	}
	return b.events[seq-1], b.bodies[seq-1], true
}

// Terms are what a run promised beyond what every run does.
type Terms struct {
	Patience    int64 // how long an acknowledgement may take, in milliseconds; 0 is no bound
	LostReplies bool  // the database's replies were cut off: see acknowledged
}

// Check returns what is wrong with a run whose faults are over, whose last inputs are answered and whose readers were
// given the time to read all.
func Check(h History, l Ledger, terms Terms) []Violation {
	var found []Violation
	for _, f := range h.Failures {
		found = append(found, Violation{Kind: f.Kind, Tenant: f.Tenant, Session: f.Session, Detail: f.Detail})
	}
	for _, p := range h.Probes {
		if p.Status != 404 {
			found = append(found, Violation{Foreign, p.Tenant, p.Session, nil, fmt.Sprintf("%s with the token of tenant %s was answered with %d", p.What, p.Tenant, p.Status)})
		}
	}
	for _, b := range books(h, l, &found) {
		b.readPayloads()
		b.inputs(terms)
		b.results()
		b.attempts()
		b.answers()
		b.strangers()
		b.streams()
		b.tools()
		b.ended(false)
	}
	return sorted(found)
}

// Quiet returns what is wrong with a ledger some time behind the last fault: a run that has not ended, an input without
// an answer whose run neither failed nor was cancelled.
func Quiet(h History, l Ledger) []Violation {
	var found []Violation
	for _, b := range books(h, l, &found) {
		b.readPayloads()
		b.ended(true)
	}
	return sorted(found)
}

// Grown returns where after does not begin with what before was.
func Grown(before, after Ledger) []Violation {
	var found []Violation
	later := books(History{}, after, &found)
	for _, e := range before.Events {
		b := later[key{e.Tenant, e.Session}]
		if b == nil || e.Seq > int64(len(b.events)) || b.events[e.Seq-1] != e {
			found = append(found, Violation{Rewritten, e.Tenant, e.Session, []int64{e.Seq}, "the event is gone or has changed: it was " + e.Kind + " " + e.Payload})
		}
	}
	return sorted(found)
}

// books sorts everything by session.
func books(h History, l Ledger, found *[]Violation) map[key]*book {
	all := map[key]*book{}
	of := func(tenant, session string) *book {
		k := key{tenant, session}
		if all[k] == nil {
			all[k] = &book{key: k, found: found, cancels: map[string]bool{}}
		}
		return all[k]
	}
	for _, e := range l.Events {
		b := of(e.Tenant, e.Session)
		b.events = append(b.events, e)
	}
	for _, r := range l.Runs {
		b := of(r.Tenant, r.Session)
		b.runs = append(b.runs, r)
	}
	for _, s := range h.Submits {
		b := of(s.Tenant, s.Session)
		b.submits = append(b.submits, s)
	}
	for _, r := range h.Reads {
		b := of(r.Tenant, r.Session)
		b.reads = append(b.reads, r)
	}
	for _, e := range h.Effects {
		b := of(e.Tenant, e.Session)
		b.effects = append(b.effects, e)
	}
	for _, c := range h.Cancels {
		of(c.Tenant, c.Session).cancels[c.Run] = true
	}
	for _, b := range all {
		slices.SortFunc(b.events, func(x, y Event) int { return cmp.Compare(x.Seq, y.Seq) })
	}
	for _, s := range l.Sessions {
		b := of(s.Tenant, s.Session)
		if s.Head != int64(len(b.events)) {
			b.say(Gap, fmt.Sprintf("the session's row says head %d, there are %d events", s.Head, len(b.events)))
		}
	}
	return all
}

func sorted(found []Violation) []Violation {
	slices.SortStableFunc(found, func(x, y Violation) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Tenant, y.Tenant), cmp.Compare(x.Session, y.Session))
	})
	return found
}
