package domain_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// ledger names events by a letter: u an input, a an answer to all inputs that wait, c an answer to them with one call, r
// its result, f the end of a run, e a failed answer. Each text has some 100 tokens; a capital letter has ten times that.
func ledger(t *testing.T, letters string) *domain.Transcript {
	t.Helper()
	tr := domain.NewTranscript()
	call := ""
	for i, l := range letters {
		seq := domain.Seq(i + 1)
		text := strings.Repeat("word ", 80)
		if l >= 'A' && l <= 'Z' {
			text = strings.Repeat(text, 10)
			l += 'a' - 'A'
		}
		shown := tr.Present(tr.Head(), nil).Seqs
		e := domain.Event{Seq: seq}
		switch l {
		case 'u':
			e.Kind, e.Payload = user, domaintest.User("r"+string(rune('0'+i)), text)
		case 'a':
			e.Kind, e.Payload = answer, domaintest.AssistantText(shown, text)
		case 'o': // answers the oldest input alone
			e.Kind, e.Payload = answer, domaintest.AssistantText(shown[:1], text)
		case 'c':
			call = "c" + string(rune('0'+i))
			e.Kind, e.Payload = answer, domaintest.AssistantCalls(shown, text, domaintest.Call{ID: call, Name: "sh"})
		case 'r':
			e.Kind, e.Payload = result, domaintest.Result(call, text)
		case 'f':
			e.Kind, e.Payload = finished, domaintest.Payload(`{"status":"done"}`)
		case 'e':
			e.Kind, e.Payload = answer, domaintest.AssistantFailed(shown, domain.StopError, text)
		case 's':
			e.Kind, e.Payload = domain.Compaction, domaintest.Compaction(text, seq-3)
		}
		require.NoError(t, tr.Apply(e))
	}
	return tr
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		events string
		keep   int
		want   domain.Seq
		why    string
	}{
		{"", 100, 0, "nothing"},
		{"u", 100, 0, "a question without an answer"},
		{"uaf", 1, 0, "a question alone is not dropped"},
		{"uafuaf", 250, 4, "the last turn"},
		{"uafuaf", 1, 4, "a whole turn rather than an answer without its question"},
		{"uafuafuafuaf", 700, 4, "as much as there is room for"},
		{"uafuafuafuaf", 450, 7, "two turns"},
		{"uafuafuafuaf", 380, 10, "a turn in the older half rather than one and a half"},
		{"uafucrcrcrcrcraf", 700, 11, "a turn larger than what is kept is cut at an answer"},
		{"uafucrcrUaf", 500, 10, "a question that does not fit, and its answer does"},
		{"uafuafUAf", 500, 7, "where nothing fits, the last beginning of a turn"},
		{"uafuafu", 1, 7, "the input that waits is shown, whatever the rest"},
		{"uafuafU", 250, 4, "it does not count"},
		{"uafuafucrcr", 1, 7, "the turn that goes on is kept"},
		{"uafuafucrcr", 5000, 0, "all of it fits"},
		{"uafucurcru", 1, 4, "the turn's first input bounds"},
		{"uafuafuc", 1, 0, "an open call"},
		{"uafucuraf", 1, 4, "not between a call and its result"},
		{"uafuofuaf", 1, 7, "a turn after the failed one"},
		{"uafuafue", 1, 7, "the input is shown, though its answer failed"},
		{"uafueeaf", 250, 4, "a failed answer before an input is no part of what is kept"},
		{"uafeuaf", 1, 5, "a failed answer is no beginning"},
		{"uafuafuafsuaf", 1, 11, "behind an earlier cut"},
	} {
		require.Equal(t, c.want, ledger(t, c.events).Cut(c.keep), "%s: %s, keep %d", c.why, c.events, c.keep)
	}
}

// On every history, at every request boundary and for every budget: a cut is accepted by the ledger, replaces what Before
// says and nothing else, and leaves in the context what waits, in full.
func TestCutIsAccepted(t *testing.T) {
	cuts := 0
	for seed := range uint64(100) {
		src := domaintest.Seeded(seed)
		g := domaintest.NewGenerator(src, domaintest.Options{Sessions: 1, Budget: 3, Clock: true})
		for range 200 {
			require.NoError(t, g.Step())
			for ref, l := range g.World.Ledgers {
				if l.Row.Owner != "" && l.Row.OpenCalls == 0 && src.Int(2) == 0 && cutBy(t, g.World, ref, src.Int(80)) {
					cuts++
				}
			}
		}
	}
	require.Greater(t, cuts, 100)
}

// cutBy compacts the session as its owner would. It reports whether there was anything to compact.
func cutBy(t require.TestingT, w *domaintest.World, ref domain.SessionRef, keep int) bool {
	l := w.Ledgers[ref]
	tr := whole(t, l.Events)
	p := tr.Present(tr.Head(), nil)
	require.Equal(t, naiveTokens(tr), tr.Tokens(p))
	kept := tr.Cut(keep)
	if kept == 0 {
		return false
	}
	before, all := tr.Before(kept), tr.Entries()
	waiting := lastInputs(tr, p)
	require.True(t, slices.ContainsFunc(before, func(e domain.Entry) bool { return e.Answer != nil && e.Answer.StopReason.Completed() }))
	r := w.Do(domaintest.Do{Ref: ref, Cmd: domain.AppendCompaction{
		At: w.Now, Run: l.Row.ActiveRun, Token: domain.Token{Process: l.Row.Owner, Epoch: l.Row.Epoch},
		Payload: domaintest.Compaction("so far", kept),
	}})
	require.NoError(t, r.Err, "kept %d of %v", kept, ledgerText(l.Events))
	require.NoError(t, w.Check())
	tr = whole(t, w.Ledgers[ref].Events)
	require.Equal(t, kept, tr.KeptSeq)
	require.Equal(t, "so far", tr.Entries()[0].Summary)
	require.True(t, reflect.DeepEqual(all[len(before):], tr.Entries()[1:]), "kept %d of %v", kept, ledgerText(l.Events))
	require.Equal(t, waiting, lastInputs(tr, p))
	require.Equal(t, naiveTokens(tr), tr.Tokens(p))
	return true
}

func whole(t require.TestingT, events []domain.Event) *domain.Transcript {
	tr := domain.NewTranscript()
	for _, e := range events {
		require.NoError(t, tr.Apply(e))
	}
	return tr
}

// lastInputs are the blocks that a request presents of the inputs of p.
func lastInputs(tr *domain.Transcript, p domain.Presented) (shown []domain.Entry) {
	for _, e := range tr.Entries() {
		if e.Input != nil && slices.Contains(p.Seqs, e.Seq) {
			shown = append(shown, e)
		}
	}
	return shown
}

// naiveTokens counts what people see, failed answers apart, and inputs that wait only once.
func naiveTokens(tr *domain.Transcript) (n int) {
	blocks := func(list []domain.Block) {
		n += 4
		for _, b := range list {
			n += b.Tokens()
		}
	}
	var replaced []domain.Seq
	entries := tr.Entries()
	for _, e := range entries {
		if e.Input != nil && e.Input.RetryOf > 0 && e.Input.RetryOf < e.Seq && slices.Contains(tr.Unanswered, e.Seq) {
			replaced = append(replaced, e.Input.RetryOf)
		}
	}
	for _, e := range entries {
		switch {
		case e.Input != nil && slices.Contains(tr.Unanswered, e.Seq) && slices.Contains(replaced, e.Seq):
		case e.Input != nil:
			blocks(append([]domain.Block{{Type: domain.TextBlock, Text: e.Input.Text}}, e.Input.Content...))
		case e.Answer == nil:
			n += 4 + domain.TextTokens(e.Summary)
		case e.Answer.StopReason.Completed():
			blocks(e.Answer.Content)
			for _, out := range e.Results {
				if out != nil {
					blocks(out.Content)
				}
			}
		}
	}
	return n
}
