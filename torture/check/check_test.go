package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A small run in which nothing is wrong: two inputs, the second one a demoted guide, a turn with a tool, an attempt that
// failed, a cancelled run, a last answer.
func sound() (History, Ledger) {
	const tenant, session = "t", "s"
	token := func(n int) string { return Token(RequestID(tenant, session, fmt.Sprint(n))) }
	input := func(n int, more string) string {
		return fmt.Sprintf(`{"text":"%s hello","requestId":"t/s/%d","note":1.50%s}`, token(n), n, more)
	}
	answer := func(seqs, text, stop, more string) string {
		return fmt.Sprintf(`{"content":[{"type":"text","text":"saw %s"}%s],"inputSeqs":%s,"stopReason":%q}`, text, more, seqs, stop)
	}
	events := []Event{
		{Kind: userMessage, Key: "requestId:t/s/1", Payload: input(1, ""), Run: "r1"},
		{Kind: userMessage, Key: "requestId:t/s/2", Payload: input(2, `,"delivery":"queue","requestedDelivery":"guide"`), Run: "r1"},
		{Kind: assistantMessage, Payload: answer("[1,2]", token(1)+" "+token(2), "tool_use", `,{"type":"toolCall","id":"c1","name":"calculator","arguments":{"expression":"6*7"}},{"type":"toolCall","id":"c2","name":"sleep","arguments":{"ms":1}}`), Run: "r1", Epoch: 1},
		{Kind: toolResult, Key: "toolCallId:c1", Payload: `{"toolCallId":"c1","content":[{"type":"text","text":"42"}]}`, Run: "r1", Epoch: 1},
		{Kind: toolResult, Key: "toolCallId:c2", Payload: `{"toolCallId":"c2","content":[{"type":"text","text":"interrupted"}],"isError":true,"interrupted":true}`, Run: "r1", Epoch: 2},
		{Kind: assistantMessage, Payload: `{"content":[],"inputSeqs":[1,2],"stopReason":"error"}`, Run: "r1", Epoch: 2},
		{Kind: runFinished, Payload: `{"status":"failed"}`, Run: "r1", Epoch: 2},
		{Kind: assistantMessage, Payload: answer("[1,2]", token(1)+" "+token(2), "end_turn", ""), Run: "r1", Epoch: 3},
		{Kind: runFinished, Payload: `{"status":"done"}`, Run: "r1", Epoch: 3},
		{Kind: userMessage, Key: "requestId:t/s/3", Payload: input(3, ""), Run: "r2"},
		{Kind: assistantMessage, Payload: `{"content":[],"inputSeqs":[10],"stopReason":"aborted"}`, Run: "r2", Epoch: 4},
		{Kind: runFinished, Payload: `{"status":"cancelled"}`, Run: "r2", Epoch: 4},
		{Kind: userMessage, Key: "requestId:t/s/4", Payload: input(4, `,"delivery":"guide"`), Run: "r3"},
		{Kind: assistantMessage, Payload: answer("[10,13]", strings.Join([]string{token(1), token(2), token(3), token(4)}, " "), "end_turn", ""), Run: "r3", Epoch: 5},
		{Kind: runFinished, Payload: `{"status":"done"}`, Run: "r3", Epoch: 5},
	}
	l := Ledger{
		Sessions: []Session{{Tenant: tenant, Session: session, Head: int64(len(events)), Epoch: 5}},
		Runs: []Run{
			{Tenant: tenant, Session: session, ID: "r1", Status: "done"},
			{Tenant: tenant, Session: session, ID: "r2", Status: "failed", Reason: "cancelled"},
			{Tenant: tenant, Session: session, ID: "r3", Status: "done"},
		},
	}
	for i := range events {
		e := &events[i]
		e.Tenant, e.Session, e.Seq, e.At = tenant, session, int64(i+1), 1_700_000_000_000+int64(i)
	}
	l.Events = events
	h := History{Cancels: []Cancel{{tenant, session, "r2"}}, Probes: []Probe{{"other", session, "GET", 404}}}
	for n, at := range []int{0, 1, 9, 12} {
		s := Submit{
			Tenant: tenant, Session: session, RequestID: fmt.Sprintf("t/s/%d", n+1), Text: token(n+1) + " hello", Note: "1.50", SentAt: 100, AckedAt: 200, Tries: 2,
			Acks: []Ack{{true, int64(at + 1), "queue", events[at].Run}, {false, int64(at + 1), "queue", events[at].Run}},
		}
		switch n {
		case 1:
			s.Delivery = "guide"
		case 3:
			s.Delivery = "guide"
			s.Acks[0].Delivery, s.Acks[1].Delivery = "guide", "guide"
		}
		h.Submits = append(h.Submits, s)
	}
	frames := make([]Frame, len(events))
	for i, e := range events {
		frames[i] = Frame{e.Seq, e.Seq, e.Kind, PayloadHash([]byte(e.Payload)), wireTime(e.At)}
	}
	h.Reads = []Read{
		{Tenant: tenant, Session: session, Reader: "one", Frames: slices.Clone(frames[:6]), Partials: []Partial{{"g", "r1", "saw " + token(1), false}}},
		{Tenant: tenant, Session: session, After: 3, Frames: slices.Clone(frames[3:8])},
		{Tenant: tenant, Session: session, Reader: "one", After: 6, Frames: slices.Clone(frames[6:])},
	}
	h.Effects = []Effect{{tenant, session, "c1", "calculator"}, {tenant, session, "c1", "calculator"}, {tenant, session, "c2", "sleep"}}
	return h, l
}

func kinds(found []Violation) []Kind {
	var list []Kind
	for _, v := range found {
		if !slices.Contains(list, v.Kind) {
			list = append(list, v.Kind)
		}
	}
	slices.Sort(list)
	return list
}

func TestASoundRunIsFine(t *testing.T) {
	h, l := sound()
	if found := slices.Concat(Check(h, l, Terms{Patience: 1000}), Quiet(h, l), Grown(l, l)); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

func TestLostRepliesExcuseASecondCreation(t *testing.T) {
	h, l := sound()
	h.Submits[0].Acks[1].Created = true
	if found := Check(h, l, Terms{LostReplies: true}); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// swap replaces a piece of an event's payload and keeps what readers saw in step.
func swap(h *History, l *Ledger, seq int64, from, to string) {
	e := &l.Events[seq-1]
	if !strings.Contains(e.Payload, from) {
		panic(fmt.Sprintf("event %d does not contain %q: %s", seq, from, e.Payload))
	}
	e.Payload = strings.Replace(e.Payload, from, to, 1)
	for r := range h.Reads {
		for f := range h.Reads[r].Frames {
			if h.Reads[r].Frames[f].Seq == seq {
				h.Reads[r].Frames[f].Hash = PayloadHash([]byte(e.Payload))
			}
		}
	}
}

// appended puts an event behind all others and lets the reader see it.
func appended(h *History, l *Ledger, e Event) {
	e.Tenant, e.Session, e.Seq, e.At = "t", "s", int64(len(l.Events)+1), 1_700_000_000_000
	l.Events = append(l.Events, e)
	l.Sessions[0].Head++
	last := &h.Reads[2]
	last.Frames = append(last.Frames, Frame{e.Seq, e.Seq, e.Kind, PayloadHash([]byte(e.Payload)), wireTime(e.At)})
}

func TestPlantedViolationsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(h *History, l *Ledger)
		want  []Kind
	}{
		"acknowledged and not there": {func(h *History, _ *Ledger) {
			h.Submits = append(h.Submits, Submit{Tenant: "t", Session: "s", RequestID: "t/s/9", Acks: []Ack{{true, 16, "queue", "r3"}}})
		}, []Kind{LostInput}},
		"twice in the ledger": {func(h *History, l *Ledger) {
			appended(h, l, Event{Kind: userMessage, Key: "requestId:t/s/4", Payload: l.Events[12].Payload, Run: "r3"})
		}, []Kind{DoubledInput, Unanswered}},
		"another text":            {func(h *History, l *Ledger) { swap(h, l, 1, "hello", "hallo") }, []Kind{ChangedInput}},
		"another number":          {func(h *History, l *Ledger) { swap(h, l, 1, "1.50", "1.5") }, []Kind{ChangedInput}},
		"another key":             {func(_ *History, l *Ledger) { l.Events[0].Key = "requestId:t/s/0" }, []Kind{ChangedInput}},
		"a queue made a guide":    {func(h *History, l *Ledger) { swap(h, l, 1, `"note"`, `"delivery":"guide","note"`) }, []Kind{AckDiffers, ChangedInput}},
		"a demotion without word": {func(h *History, l *Ledger) { swap(h, l, 2, `,"requestedDelivery":"guide"`, ``) }, []Kind{ChangedInput}},
		"an input of nobody":      {func(h *History, _ *Ledger) { h.Submits = h.Submits[1:] }, []Kind{UnknownInput}},
		"never acknowledged": {func(h *History, _ *Ledger) {
			h.Submits = append(h.Submits, Submit{Tenant: "t", Session: "s", RequestID: "t/s/9", Tries: 4})
		}, []Kind{Unacknowledged}},
		"acknowledged with another seq": {func(h *History, _ *Ledger) { h.Submits[0].Acks[1].Seq = 2 }, []Kind{AckDiffers}},
		"acknowledged with another run": {func(h *History, _ *Ledger) { h.Submits[0].Acks[1].Run = "r2" }, []Kind{AckDiffers}},
		"created twice":                 {func(h *History, _ *Ledger) { h.Submits[0].Acks[1].Created = true }, []Kind{AckDiffers}},
		"slow":                          {func(h *History, _ *Ledger) { h.Submits[0].AckedAt = 1200 }, []Kind{Slow}},
		"a seq is missing": {func(h *History, l *Ledger) {
			l.Events = l.Events[:14]
			h.Reads[2].Frames = h.Reads[2].Frames[:8]
			l.Events[13].Seq, h.Reads[2].Frames[7].Seq, h.Reads[2].Frames[7].ID = 15, 15, 15
		}, []Kind{Gap, StreamDiffers, StreamGap}},
		"a head beyond the events": {func(_ *History, l *Ledger) { l.Sessions[0].Head++ }, []Kind{Gap}},
		"no JSON":                  {func(h *History, l *Ledger) { swap(h, l, 7, `{"status":"failed"}`, `{"status`) }, []Kind{Malformed}},
		"a second result": {func(h *History, l *Ledger) {
			appended(h, l, Event{Kind: toolResult, Key: "toolCallId:c1", Payload: l.Events[3].Payload, Run: "r4", Epoch: 6})
		}, []Kind{ResultTwice}},
		"a result of no call": {func(h *History, l *Ledger) {
			appended(h, l, Event{Kind: toolResult, Key: "toolCallId:c9", Payload: `{"toolCallId":"c9","isError":true}`, Run: "r4", Epoch: 6})
		}, []Kind{ResultOrphan}},
		"a call without result": {func(h *History, l *Ledger) {
			swap(h, l, 14, `],"inputSeqs"`, `,{"type":"toolCall","id":"c3","name":"time","arguments":{}}],"inputSeqs"`)
		}, []Kind{ResultMissing}},
		"an answer before the result": {func(h *History, l *Ledger) {
			swap(h, l, 8, `],"inputSeqs"`, `,{"type":"toolCall","id":"c3","name":"time","arguments":{}}],"inputSeqs"`)
			appended(h, l, Event{Kind: toolResult, Key: "toolCallId:c3", Payload: `{"toolCallId":"c3","isError":true}`, Run: "r4", Epoch: 6})
		}, []Kind{ResultMissing}},
		"a wrong product": {func(h *History, l *Ledger) { swap(h, l, 4, `"42"`, `"43"`) }, []Kind{ResultWrong}},
		"an id of a call twice": {func(h *History, l *Ledger) {
			swap(h, l, 14, `],"inputSeqs"`, `,{"type":"toolCall","id":"c1","name":"time","arguments":{}}],"inputSeqs"`)
		}, []Kind{ResultMissing, ResultWrong}},
		"a result under another key": {func(_ *History, l *Ledger) { l.Events[3].Key = "toolCallId:x" }, []Kind{ResultWrong}},
		"a stale commit":             {func(_ *History, l *Ledger) { l.Events[8].Epoch = 1 }, []Kind{EpochBack}},
		"a commit without an owner":  {func(_ *History, l *Ledger) { l.Events[2].Epoch, l.Events[2].Run = 0, "" }, []Kind{EpochBack}},
		"a commit behind the end":    {func(_ *History, l *Ledger) { l.Events[7].Epoch = 2 }, []Kind{LateCommit}},
		"two ends of an attempt": {func(h *History, l *Ledger) {
			appended(h, l, Event{Kind: runFinished, Payload: `{"status":"done"}`, Run: "r3", Epoch: 5})
		}, []Kind{FinishedTwice}},
		"a run at odds with its end": {func(h *History, l *Ledger) { swap(h, l, 15, "done", "failed") }, []Kind{StatusDiffers}},
		"an input without answer": {func(h *History, l *Ledger) {
			swap(h, l, 14, "[10,13]", "[13]")
			swap(h, l, 14, " "+Token("t/s/3"), "")
		}, []Kind{Unanswered}},
		"a turn answered again":         {func(h *History, l *Ledger) { swap(h, l, 14, "[10,13]", "[2,10,13]") }, []Kind{AnsweredTwice}},
		"an answer from too little":     {func(h *History, l *Ledger) { swap(h, l, 14, " "+Token("t/s/2"), "") }, []Kind{WrongContext}},
		"an answer from too much":       {func(h *History, l *Ledger) { swap(h, l, 8, "saw ", "saw "+Token("t/s/3")+" ") }, []Kind{WrongContext}},
		"an answer to what comes later": {func(h *History, l *Ledger) { swap(h, l, 6, "[1,2]", "[1,10]") }, []Kind{WrongContext}},
		"something of another session":  {func(h *History, l *Ledger) { swap(h, l, 5, "interrupted", Token("t/other/1")) }, []Kind{Foreign}},
		"a partial of another tenant":   {func(h *History, _ *Ledger) { h.Reads[0].Partials[0].Text += Token("u/s/1") }, []Kind{Foreign}},
		"a partial of another run":      {func(h *History, _ *Ledger) { h.Reads[0].Partials[0].Run = "r9" }, []Kind{Foreign}},
		"a partial with an id":          {func(h *History, _ *Ledger) { h.Reads[0].Partials[0].MovedID = true }, []Kind{PartialDurable}},
		"a session of another tenant":   {func(h *History, _ *Ledger) { h.Probes[0].Status = 200 }, []Kind{Foreign}},
		"two active runs": {func(_ *History, l *Ledger) {
			l.Runs = append(l.Runs, Run{Tenant: "t", Session: "s", ID: "r4", Status: "pending"}, Run{Tenant: "t", Session: "s", ID: "r5", Status: "running"})
		}, []Kind{NotQuiet, TwoRuns}},
		"a run that has not ended": {func(_ *History, l *Ledger) { l.Runs[2].Status = "running" }, []Kind{NotQuiet}},
		"a cancel of nobody":       {func(h *History, _ *Ledger) { h.Cancels = nil }, []Kind{Uncaused}},
		"a reader missed one":      {func(h *History, _ *Ledger) { h.Reads[0].Frames = slices.Delete(h.Reads[0].Frames, 2, 3) }, []Kind{StreamGap}},
		"a reader got one twice": {func(h *History, _ *Ledger) {
			h.Reads[0].Frames = slices.Insert(h.Reads[0].Frames, 2, h.Reads[0].Frames[1])
		}, []Kind{StreamGap}},
		"a reconnect skipped one": {func(h *History, _ *Ledger) {
			h.Reads[2].After, h.Reads[2].Frames = 7, h.Reads[2].Frames[1:]
		}, []Kind{StreamGap}},
		"another id than the seq": {func(h *History, _ *Ledger) { h.Reads[0].Frames[2].ID = 2 }, []Kind{StreamGap}},
		"another payload":         {func(h *History, _ *Ledger) { h.Reads[0].Frames[2].Hash = "00" }, []Kind{StreamDiffers}},
		"another time":            {func(h *History, _ *Ledger) { h.Reads[1].Frames[2].At = "2026" }, []Kind{StreamDiffers}},
		"an event that is not there": {func(h *History, _ *Ledger) {
			h.Reads[2].Frames = append(h.Reads[2].Frames, Frame{16, 16, runFinished, "00", ""})
		}, []Kind{StreamDiffers}},
		"a reader stopped early": {func(h *History, _ *Ledger) { h.Reads = h.Reads[:1] }, []Kind{StreamShort}},
		"a tool ran again":       {func(h *History, _ *Ledger) { h.Effects = append(h.Effects, h.Effects[2]) }, []Kind{EffectTwice}},
		"a tool ran for no call": {func(h *History, _ *Ledger) { h.Effects[2].Call = "c7" }, []Kind{EffectUnknown}},
		"a result of nothing":    {func(h *History, _ *Ledger) { h.Effects = h.Effects[2:] }, []Kind{EffectUnknown}},
		"a failure of a client":  {func(h *History, _ *Ledger) { h.Failures = []Failure{{Kind: Refused}} }, []Kind{Refused}},
	} {
		t.Run(name, func(t *testing.T) {
			h, l := sound()
			c.plant(&h, &l)
			if found := Check(h, l, Terms{Patience: 1000}); !slices.Equal(kinds(found), c.want) {
				t.Errorf("found %v, want %v: %v", kinds(found), c.want, found)
			}
		})
	}
}

// An input may stay without an answer for a while where its run failed, and only there.
func TestQuietExcusesFailedRuns(t *testing.T) {
	h, l := sound()
	l.Events, l.Sessions[0].Head = l.Events[:12], 12
	if found := Quiet(h, l); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	l.Runs[1].Status, l.Runs[1].Reason = "done", ""
	if found := Quiet(h, l); !slices.Equal(kinds(found), []Kind{Unanswered}) {
		t.Errorf("found %v", found)
	}
	l.Runs[1].Status = "pending"
	if found := Quiet(h, l); !slices.Equal(kinds(found), []Kind{NotQuiet}) {
		t.Errorf("found %v", found)
	}
}

func TestGrownSeesWhatWasRewritten(t *testing.T) {
	_, before := sound()
	_, after := sound()
	after.Events[4].Payload = "{}"
	after.Events = after.Events[:14]
	found := Grown(before, after)
	if !slices.Equal(kinds(found), []Kind{Gap, Rewritten}) {
		t.Errorf("found %v", found)
	}
}

func TestLogsAreReadBack(t *testing.T) {
	h, l := sound()
	var log, rows bytes.Buffer
	out := json.NewEncoder(&log)
	add := func(r Record) {
		if err := out.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range h.Submits { // each acknowledgement is a record of its own
		for j := range h.Submits[i].Acks {
			s := h.Submits[i]
			s.Acks, s.Tries = s.Acks[j:j+1], 1
			add(Record{Submit: &s})
		}
	}
	for i := range h.Cancels {
		add(Record{Cancel: &h.Cancels[i]})
	}
	for i := range h.Reads {
		add(Record{Read: &h.Reads[i]})
	}
	for i := range h.Probes {
		add(Record{Probe: &h.Probes[i]})
	}
	for i := range h.Effects {
		add(Record{Effect: &h.Effects[i]})
	}
	add(Record{Failure: &Failure{Kind: Slow}})
	if err := l.Write(&rows); err != nil {
		t.Fatal(err)
	}
	again, err := ReadHistory(&log)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := ReadLedger(&rows)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Submits) != len(h.Submits) || len(again.Submits[0].Acks) != 2 || again.Submits[0].Tries != 2 {
		t.Errorf("the inputs were read back as %+v", again.Submits)
	}
	if found := Check(again, ledger, Terms{Patience: 1000}); !slices.Equal(kinds(found), []Kind{Slow}) {
		t.Errorf("found %v", found)
	}
	if got, want := Count(again, ledger), Count(h, l); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if _, err := ReadHistory(strings.NewReader("{}\n{")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a broken line gives %v", err)
	}
}
