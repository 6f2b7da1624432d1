package domain_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

func transcript(t *testing.T, events []domain.Event) *domain.Transcript {
	t.Helper()
	tr := domain.NewTranscript()
	for _, e := range events {
		require.NoError(t, tr.Apply(e))
	}
	require.Equal(t, domain.Seq(len(events)), tr.Head())
	return tr
}

// summed is how a context begins with a summary.
func summed(summary string) string {
	return fmt.Sprintf("| user: %q", "Summary of the conversation before this point:\n\n"+summary)
}

// contextAfter is what a request after events presents, one line per message.
func contextAfter(t *testing.T, events []domain.Event) string {
	t.Helper()
	tr := transcript(t, events)
	messages := tr.Context(tr.Present(tr.Head(), nil))
	checkWellFormed(t, messages)
	return strings.Join(printedContext(messages), "\n")
}

func calls(inputs []domain.Seq, ids ...string) domain.Payload {
	var list []domaintest.Call
	for _, id := range ids {
		list = append(list, domaintest.Call{ID: id, Name: "sh"})
	}
	return domaintest.AssistantCalls(inputs, "", list...)
}

// K13: the order of results is call order, whatever the order of the log, and stable.
func TestResultsInCallOrder(t *testing.T) {
	want := "| user: \"go\"\n| assistant: call a sh, call b sh, call c sh\n| tool a/: \"a\"\n| tool b/: \"b\"\n| tool c/: \"c\""
	for _, order := range []string{"abc", "acb", "bac", "bca", "cab", "cba"} {
		events := history(user, domaintest.User("r", "go"), answer, calls(seqs(1, 1), "a", "b", "c"))
		for _, id := range order {
			events = append(events, history(result, domaintest.Result(string(id), string(id)))...)
			events[len(events)-1].Seq = domain.Seq(len(events))
		}
		require.Equal(t, want, contextAfter(t, events), order)
	}
	open := contextAfter(t, history(user, domaintest.User("r", "go"), answer, calls(seqs(1, 1), "a", "b"),
		result, domaintest.Result("b", "b")))
	require.Equal(t, "| user: \"go\"\n| assistant: call a sh, call b sh\n"+
		"| tool a/: \"The call was interrupted; its outcome is unknown.\"\n| tool b/: \"b\"", open)
}

// K09: failures are left out, blank blocks dropped, a silent tool gets a placeholder, neighbouring inputs are merged.
func TestContextIsPresentable(t *testing.T) {
	for name, c := range map[string]struct {
		events []domain.Event
		want   string
	}{
		"aborted while thinking": {
			history(user, `{"text":"a"}`, answer, `{"content":[],"inputSeqs":[1],"stopReason":"aborted"}`,
				finished, `{"status":"cancelled"}`, user, `{"text":"b"}`),
			`| user: "a", "b"`,
		},
		"failed twice": {
			history(user, `{"text":"a"}`, answer, `{"content":[{"type":"text","text":"half"}],"inputSeqs":[1],"stopReason":"error"}`,
				finished, `{"status":"failed"}`, answer, `{"content":[{"type":"text","text":""}],"inputSeqs":[1],"stopReason":"error"}`),
			`| user: "a"`,
		},
		"blank text beside a call, silent tool": {
			history(user, `{"text":"a"}`, answer, domaintest.AssistantCalls(seqs(1, 1),
				"\n\n", domaintest.Call{ID: "c", Name: "sh"}),
				result, `{"toolCallId":"c","content":[{"type":"text","text":" \u3000\n"}]}`),
			"| user: \"a\"\n| assistant: call c sh\n| tool c/: \"(no output)\"",
		},
		"a result without content": {
			history(user, `{"text":"a"}`, answer, calls(seqs(1, 1), "c"), result, `{"toolCallId":"c"}`),
			"| user: \"a\"\n| assistant: call c sh\n| tool c/: \"(no output)\"",
		},
		"a blank input": {history(user, `{"text":" \t"}`), `| user: "(empty message)"`},
		"an input without text": {
			history(user, `{"content":[{"type":"text","text":"x"},{"type":"chart","data":[1]},{"type":"text","text":" "}]}`), `| user: "x"`,
		},
		"a blank answer": {
			history(user, `{"text":"a"}`, answer, `{"content":[{"type":"text","text":" "}],"inputSeqs":[1],"stopReason":"refusal"}`, user, `{"text":"b"}`),
			`| user: "a", "b"`,
		},
		"a client's input with calls and thoughts": {
			history(user, `{"text":"a","content":[{"type":"toolCall","id":"x","name":"n"},{"type":"thinking","thinking":"t","signature":"s"}]}`),
			`| user: "a"`,
		},
		"a tool's output with calls": {
			history(user, `{"text":"a"}`, answer, calls(seqs(1, 1), "c"),
				result, `{"toolCallId":"c","content":[{"type":"toolCall","id":"x","name":"n"}]}`),
			"| user: \"a\"\n| assistant: call c sh\n| tool c/: \"(no output)\"",
		},
		"text that is only a NUL is text": {history(user, `{"text":"\u0000"}`), `| user: "\x00"`},
		"a summary": {
			history(user, `{"text":"a"}`, answer, domaintest.AssistantText(seqs(1, 1), "b"), user, `{"text":"c"}`,
				domain.Compaction, domaintest.Compaction("sum", 2)),
			summed("sum") + "\n| assistant: \"b\"\n| user: \"c\"",
		},
		"a blank summary": {
			history(user, `{"text":"a"}`, answer, domaintest.AssistantText(seqs(1, 1), "b"),
				domain.Compaction, domaintest.Compaction("", 2)),
			"| user: \"(empty message)\"\n| assistant: \"b\"",
		},
		"a summary of everything": {
			history(user, `{"text":"a"}`, answer, domaintest.AssistantText(seqs(1, 1), "b"),
				finished, `{"status":"done"}`, domain.Compaction, domaintest.Compaction("sum", 3), user, `{"text":"c"}`),
			summed("sum") + `, "c"`,
		},
		"a summary of a summary": {
			history(user, `{"text":"a"}`, answer, domaintest.AssistantText(seqs(1, 1), "b"),
				domain.Compaction, domaintest.Compaction("one", 2),
				user, `{"text":"c"}`, answer, domaintest.AssistantText(seqs(4, 4), "d"),
				domain.Compaction, domaintest.Compaction("two", 4)),
			summed("two") + ", \"c\"\n| assistant: \"d\"",
		},
		"a question before the cut, presented after it": {
			history(user, `{"text":"a"}`, user, `{"text":"b"}`, answer, domaintest.AssistantText(seqs(1, 1), "A"), answer,
				domaintest.AssistantText(seqs(2, 2), "B"), domain.Compaction, domaintest.Compaction("sum", 3)),
			summed("sum") + "\n| assistant: \"A\"\n| user: \"b\"\n| assistant: \"B\"",
		},
	} {
		require.Equal(t, c.want, contextAfter(t, c.events), name)
	}
}

// K11: an imported ledger may use one call id in several messages; a result belongs to the latest of them.
func TestReusedCallIDs(t *testing.T) {
	events := history(user, `{"text":"a"}`, answer, calls(seqs(1, 1), "call_0"), result, domaintest.Result("call_0", "a.txt"),
		answer, calls(seqs(1, 1), "call_0"), result, domaintest.Result("call_0", "b.txt"))
	require.Equal(t, "| user: \"a\"\n| assistant: call call_0 sh\n| tool call_0/: \"a.txt\"\n| assistant: call call_0 sh\n| tool call_0/: \"b.txt\"",
		contextAfter(t, events))
}

// Where an answer came from, and what only its own backend understands, goes with it.
func TestContextKeepsOrigin(t *testing.T) {
	m := domain.Assistant{
		Content: []domain.Block{
			{Type: domain.ThinkingBlock, Signature: "sig"}, {Type: domain.ThinkingBlock}, {Type: domain.TextBlock, Text: "x"},
			{Type: domain.CallBlock, ID: "c", Name: "sh", Arguments: `{"a":8123456789012345677}`, ProviderID: "call_0", Signature: "s\x00"},
			{Type: domain.ImageBlock, MimeType: "image/png", Data: "AA=="}, {Type: domain.ImageBlock},
			{Type: domain.TextBlock}, {Type: domain.TextBlock, Signature: "sig"},
		},
		InputSeqs: seqs(1, 1), HasInputSeqs: true, StopReason: domain.StopToolUse, Provider: "p", Model: "m",
	}
	p, err := m.Payload(0)
	require.NoError(t, err)
	out := domain.ToolOutput{ToolCallID: "c", IsError: true, Content: []domain.Block{{Type: domain.ImageBlock,
		MimeType: "image/png", Data: "AA=="}, {Type: domain.TextBlock, Signature: "no answer's"}}}
	r, err := out.Payload(0)
	require.NoError(t, err)
	tr := transcript(t, history(user, `{"text":"a"}`, answer, p, result, r))
	require.Equal(t, []domain.Message{
		{Role: domain.RoleUser, Content: []domain.Block{{Type: domain.TextBlock, Text: "a"}}},
		{Role: domain.RoleAssistant, Provider: "p", Model: "m", Content: []domain.Block{m.Content[0], m.Content[2],
			m.Content[3], m.Content[4], m.Content[7]}},
		{Role: domain.RoleTool, Content: out.Content[:1], CallID: "c", ProviderID: "call_0", ToolName: "sh", IsError: true},
	}, tr.Context(domain.Presented{}))
}

// K09 variant 4: after failures the same request is made again; and what was returned stays as it was.
func TestRequestsAfterFailuresAreEqual(t *testing.T) {
	tr := transcript(t, history(user, `{"text":"a"}`, answer, calls(seqs(1, 1), "c"), result, domaintest.Result("c", "x")))
	first := tr.Context(tr.Present(1, nil))
	kept := fmt.Sprintf("%#v", first)
	for i := range 3 {
		for _, e := range history(answer, `{"content":[{"type":"text","text":"half"}],"inputSeqs":[1],"stopReason":"error"}`, finished, `{"status":"failed"}`) {
			e.Seq = tr.Head() + 1
			require.NoError(t, tr.Apply(e))
		}
		require.True(t, reflect.DeepEqual(first, tr.Context(tr.Present(tr.Head(), nil))), "request %d", i+2)
	}
	e := history(user, `{"text":"more"}`)[0]
	e.Seq = tr.Head() + 1
	require.NoError(t, tr.Apply(e))
	more := tr.Context(tr.Present(tr.Head(), nil))
	require.True(t, beginsWith(flattened(more), flattened(first)))
	require.Equal(t, kept, fmt.Sprintf("%#v", first))
}

// A ledger that was written before inputSeqs reads in its old order, and goes on with inputSeqs.
func TestLegacyTranscript(t *testing.T) {
	old := func(text string) string {
		return `{"content":[{"type":"text","text":"` + text + `"}],"stopReason":"end_turn"}`
	}
	tr := domain.NewTranscript()
	tr.LegacyWatermark = 4
	for _, e := range history(user, `{"text":"a"}`, answer, old("A"), user, `{"text":"b"}`, answer, old("B"),
		finished, `{"status":"done"}`, user, `{"text":"c"}`) {
		require.NoError(t, tr.Apply(e))
	}
	want := "| user: \"a\"\n| assistant: \"A\"\n| user: \"b\"\n| assistant: \"B\"\n| user: \"c\""
	p := tr.Present(tr.Head(), nil)
	require.Equal(t, seqs(6, 6), p.Seqs)
	require.Equal(t, want, strings.Join(printedContext(tr.Context(p)), "\n"))
	require.NoError(t, tr.Apply(domain.Event{Seq: 7, Kind: answer, Payload: domaintest.AssistantText(p.Seqs, "C")}))
	require.Equal(t, want+"\n| assistant: \"C\"", strings.Join(printedContext(tr.Context(tr.Present(7, nil))), "\n"))
}

func TestEntriesAndPending(t *testing.T) {
	tr := transcript(t, history(user, `{"text":"a"}`, answer, `{"content":[],"inputSeqs":[1],"stopReason":"error","error":"503"}`, finished, `{"status":"failed"}`,
		answer, calls(seqs(1, 1), "x", "y", "z"), result, domaintest.Result("y", "Y"), user, `{"text":"b"}`))
	var told []string
	for _, e := range tr.Entries() {
		switch {
		case e.Input != nil:
			told = append(told, fmt.Sprintf("%d input %s", e.Seq, e.Input.Text))
		case e.Answer != nil:
			told = append(told, fmt.Sprintf("%d %s %d", e.Seq, e.Answer.StopReason, len(e.Results)))
		}
	}
	require.Equal(t, []string{"2 error 0", "1 input a", "4 tool_use 3", "6 input b"}, told)
	var open []string
	for _, b := range tr.Pending() {
		open = append(open, b.ID)
	}
	require.Equal(t, []string{"x", "z"}, open)
	require.NoError(t, tr.Apply(domain.Event{Seq: 7, Kind: result, Payload: domaintest.Result("z", "Z")}))
	require.NoError(t, tr.Apply(domain.Event{Seq: 8, Kind: result, Payload: domaintest.Result("x", "X")}))
	require.Empty(t, tr.Pending())
}

// The selection of the latest presented input is in force for the whole turn, and over with it.
// A selection that cannot work does not outlive the input that brought it: a retry replaces both.
func TestSelectionOfAReplacedInput(t *testing.T) {
	tr := domain.NewTranscript()
	for i, raw := range []string{`{"text":"a","selection":{"model":"gone"}}`, `{"text":"a","retryOf":1}`} {
		require.NoError(t, tr.Apply(domain.Event{Seq: domain.Seq(i + 1), Kind: domain.UserMessage, Payload: domaintest.Payload(raw)}))
	}
	sel, _ := tr.Selection(tr.Present(2, nil))
	require.Empty(t, sel)
	sel, _ = tr.Selection(tr.Present(1, nil))
	require.Equal(t, `{"model":"gone"}`, sel)
}

func TestTranscriptSelection(t *testing.T) {
	tr := domain.NewTranscript()
	add := func(items ...any) {
		for _, e := range history(items...) {
			e.Seq = tr.Head() + 1
			require.NoError(t, tr.Apply(e))
		}
	}
	check := func(want string, answers int) {
		t.Helper()
		sel, n := tr.Selection(tr.Present(tr.Head(), nil))
		require.Equal(t, []any{want, answers}, []any{sel, n})
	}
	check("", 0)
	add(user, `{"text":"a","selection":{"model":"m1"}}`, user, `{"text":"b"}`)
	check(`{"model":"m1"}`, 0)
	add(answer, `{"inputSeqs":[1,2],"stopReason":"error"}`, finished, `{"status":"failed"}`)
	check(`{"model":"m1"}`, 1)
	add(answer, calls(seqs(1, 2), "c"), result, domaintest.Result("c", "x"))
	check(`{"model":"m1"}`, 2)
	add(user, `{"text":"c","selection":{"model":"m2"}}`)
	check(`{"model":"m2"}`, 0)
	sel, n := tr.Selection(tr.Present(2, nil))
	require.Equal(t, []any{`{"model":"m1"}`, 2}, []any{sel, n}, "an input that is not presented has no say")
	add(answer, domaintest.AssistantText([]domain.Seq{1, 2, 7}, "done"), user, `{"text":"d"}`)
	check("", 0)
	add(answer, `{"inputSeqs":[9],"stopReason":"error"}`)
	check("", 1)
	require.True(t, slices.Equal(seqs(9, 9), tr.Unanswered))
}
