package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

func imageOf(name string) string {
	return fmt.Sprintf(`{"type":"image","mimeType":"image/png","data":%q}`, name+strings.Repeat("A", 100))
}

// images is a ledger with an image in each place, and a turn that goes on.
func images(t *testing.T) *domain.Transcript {
	in := func(n int) string {
		return fmt.Sprintf(`{"text":"t%d","requestId":"r%d","content":[%s]}`, n, n, imageOf(fmt.Sprint(n)))
	}
	out := func(call string) string {
		return fmt.Sprintf(`{"toolCallId":%q,"content":[%s,{"type":"text","text":%q}]}`, call, imageOf(call), call+strings.Repeat("é", 1000))
	}
	return transcript(t, history(
		user, in(1), answer, calls(seqs(1, 1), "a"), result, out("a"), answer, domaintest.AssistantText(seqs(1, 1), "A"), finished, `{"status":"done"}`,
		user, in(6), answer, domaintest.AssistantText(seqs(6, 6), "B"), finished, `{"status":"done"}`,
		user, in(9), answer, calls(seqs(9, 9), "b"), result, out("b"), answer, calls(seqs(9, 9), "c"), result, out("c"), user, in(14)))
}

// shownOf lists the images and notes of a context by the first characters of each.
func shownOf(tr *domain.Transcript) string {
	var shown []string
	for _, m := range tr.Context(tr.Present(tr.Head(), nil)) {
		for _, b := range m.Content {
			switch {
			case b.Type == domain.ImageBlock:
				shown = append(shown, strings.TrimRight(b.Data, "A"))
			case strings.HasPrefix(b.Text, "(an image"):
				shown = append(shown, "-")
			}
		}
	}
	return strings.Join(shown, " ")
}

// counted is ImageBytes, which is what a context shows.
func counted(t *testing.T, tr *domain.Transcript) int {
	t.Helper()
	p, n := tr.Present(tr.Head(), nil), 0
	for _, m := range tr.Context(p) {
		for _, b := range m.Content {
			n += len(b.Data)
		}
	}
	require.Equal(t, n, tr.ImageBytes(p))
	return n
}

// Old images leave first, the older half at a time; those that the model has yet to see stay.
func TestLeaveOutImages(t *testing.T) {
	tr := images(t)
	before := tr.Tokens(tr.Present(tr.Head(), nil))
	require.Equal(t, "1 a 6 9 b c 14", shownOf(tr))
	require.Equal(t, 6*101+102, counted(t, tr))
	for _, want := range []string{"- - 6 9 b c 14", "- - - 9 b c 14", "- - - 9 - c 14"} {
		require.True(t, tr.LeaveOutImages())
		require.Equal(t, want, shownOf(tr))
		require.Equal(t, 101*strings.Count(strings.ReplaceAll(want, "- ", ""), " ")+102, counted(t, tr))
		checkWellFormed(t, tr.Context(tr.Present(tr.Head(), nil)))
	}
	require.False(t, tr.LeaveOutImages())
	require.Equal(t, images(t).Entries(), tr.Entries(), "people see them all")
	require.Less(t, tr.Tokens(tr.Present(tr.Head(), nil)), before-4*1400)
}

// A request that failed showed the model nothing: what it was to see first stays when older things leave.
func TestFailedRequestsSawNothing(t *testing.T) {
	events := history(user, `{"text":"a"}`, answer, calls(seqs(1, 1), "a"), result, `{"toolCallId":"a","content":[`+imageOf("a")+`]}`,
		answer, domaintest.AssistantFailed(seqs(1, 1), domain.StopError, ""))
	require.False(t, transcript(t, events).LeaveOutImages())
}

// Of images that a backend refused those leave first that no backend has taken yet, then all.
func TestLeaveOutRefusedImages(t *testing.T) {
	tr := images(t)
	require.Equal(t, "1 a 6 9 b c 14", shownOf(tr))
	for _, want := range []string{"1 a 6 9 b - -", "- - - - - - -"} {
		before := tr.Tokens(tr.Present(tr.Head(), nil))
		require.True(t, tr.LeaveOutRefusedImages(tr.Present(tr.Head(), nil)))
		require.Equal(t, want, shownOf(tr))
		counted(t, tr)
		require.Less(t, tr.Tokens(tr.Present(tr.Head(), nil)), before)
		checkWellFormed(t, tr.Context(tr.Present(tr.Head(), nil)))
	}
	require.False(t, tr.LeaveOutRefusedImages(tr.Present(tr.Head(), nil)))
	require.Equal(t, images(t).Entries(), tr.Entries(), "people see them all")
	require.NoError(t, tr.Apply(domain.Event{Seq: tr.Head() + 1, Kind: answer, Payload: domaintest.AssistantText([]domain.Seq{9, 14}, "C")}))
	require.Equal(t, "- - - - - - -", shownOf(tr), "they do not come back with the answer")
	whole, note := images(t), domain.Block{Type: domain.TextBlock, Text: "(an image was left out: the model's backend refused to take it)"}.Tokens()
	require.NoError(t, whole.Apply(domain.Event{Seq: tr.Head(), Kind: answer, Payload: domaintest.AssistantText([]domain.Seq{9, 14}, "C")}))
	require.Equal(t, whole.Tokens(domain.Presented{})-7*(domain.Block{Type: domain.ImageBlock}.Tokens()-note), tr.Tokens(domain.Presented{}))

	only := transcript(t, history(user, `{"content":[`+imageOf("1")+`]}`, user, `{"retryOf":1,"text":"b"}`))
	require.False(t, only.LeaveOutRefusedImages(only.Present(2, nil)), "it was not shown")
	require.False(t, only.LeaveOutRefusedImages(domain.Presented{}))
}

// What one model's backend refused another one may take. What left for its size stays away.
func TestShowTo(t *testing.T) {
	tr := images(t)
	tr.ShowTo("blind")
	require.True(t, tr.LeaveOutImages())
	left := shownOf(tr)
	before := tr.Tokens(tr.Present(tr.Head(), nil))
	for range 2 {
		require.True(t, tr.LeaveOutRefusedImages(tr.Present(tr.Head(), nil)))
	}
	tr.ShowTo("blind")
	require.Equal(t, "- - - - - - -", shownOf(tr))
	tr.ShowTo("sees")
	require.Equal(t, left, shownOf(tr))
	require.Contains(t, left, "-")
	require.Equal(t, before, tr.Tokens(tr.Present(tr.Head(), nil)))
	require.Equal(t, images(t).Entries(), tr.Entries())
}

// Long outputs are shown by their beginning, cut between characters; the results that await the model stay whole.
func TestLeaveOutOutputs(t *testing.T) {
	tr := images(t)
	long := func() (sizes []int) {
		for _, m := range tr.Context(tr.Present(tr.Head(), nil)) {
			if m.Role == domain.RoleTool {
				text := m.Content[1].Text
				require.Equal(t, strings.ToValidUTF8(text, ""), text)
				sizes = append(sizes, len(text))
				require.Equal(t, len(text) < 2001, strings.HasSuffix(text, "\n(the rest of the output was left out)"))
			}
		}
		return sizes
	}
	require.Equal(t, []int{2001, 2001, 2001}, long())
	require.True(t, tr.LeaveOutOutputs())
	require.Equal(t, []int{437, 2001, 2001}, long())
	require.True(t, tr.LeaveOutOutputs())
	require.Equal(t, []int{437, 437, 2001}, long())
	require.False(t, tr.LeaveOutOutputs())
	require.Equal(t, "1 a 6 9 b c 14", shownOf(tr))
	require.Equal(t, images(t).Entries(), tr.Entries(), "people read them whole")
}

// Where an image has no data there is nothing to leave out, and nothing is said of it.
func TestLeaveOutImagesWithoutData(t *testing.T) {
	in := `{"text":"t","requestId":"r","content":[` + imageOf("1") + `,{"type":"image","mimeType":"image/png"}]}`
	tr := transcript(t, history(user, in, answer, domaintest.AssistantText(seqs(1, 1), "A"), finished, `{"status":"done"}`, user, `{"text":"u"}`))
	require.True(t, tr.LeaveOutImages())
	require.Equal(t, "-", shownOf(tr))
}

// An estimate is near what tokenizers count, and never nothing for something.
func TestTextTokens(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 1, "Hello, world": 3, strings.Repeat("word ", 100): 125, "你好世界": 4, "Привет": 4,
	} {
		require.Equal(t, want, domain.TextTokens(text), text)
	}
	require.Equal(t, 1500, domain.Block{Type: domain.ImageBlock, Data: strings.Repeat("A", 1<<20)}.Tokens())
	require.Zero(t, domain.Block{Type: "video", Text: "x"}.Tokens())
	require.Equal(t, 8+1+3, domain.Block{Type: domain.CallBlock, Name: "sh", Arguments: `{"a":"bcd"}`}.Tokens())
}

// What the backend counted stands beside the estimate of that request until the next compaction.
func TestMeasured(t *testing.T) {
	counted := func(inputs []domain.Seq, n int) string {
		return domaintest.AssistantText(inputs, "A").With("usage", fmt.Sprintf(`{"input":%d,"output":1}`, n)).String()
	}
	events := history(user, `{"text":"a"}`, answer, counted(seqs(1, 1), 77), user, `{"text":"b"}`)
	require.Equal(t, domain.Measure{Estimated: 9, Counted: 77}, transcript(t, events).Measured())
	events = append(events, history(answer, domaintest.AssistantText(seqs(3, 3), "uncounted"))...)
	events[3].Seq = 4
	require.Equal(t, 77, transcript(t, events).Measured().Counted)
	events = append(events, history(domain.Compaction, domaintest.Compaction("s", 3))...)
	events[4].Seq = 5
	require.Zero(t, transcript(t, events).Measured())
}
