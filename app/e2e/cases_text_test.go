package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// awkward are texts that stores, JSON writers and backends trip over; the JSON text of each, without quotes.
var awkward = map[string]string{
	"nul":         `d\u0000i\u0000r\u0000`,
	"spelled":     `if s == \"\\u0000\" { \\\\u0000 }`,
	"controls":    `\u0001\u0002\b\t\n\f\r\u001b\u001f\u007f\ufffe\uffff\u2028\u2029`,
	"half":        `ok \ud83d`,
	"halves":      `\ude00\ud83d \ud83d\ude00`,
	"placeholder": `? ?| ?& $1 :name ' '' \\ -- /* */ %s {}`,
}

// meant is the text that the JSON text stands for; clean is what a backend gets of it.
func meant(t *testing.T, escaped string) (text, clean string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(`"`+escaped+`"`), &text))
	return text, strings.ReplaceAll(text, "\x00", "\uFFFD")
}

// K26, K27 B and K40, 4: texts in inputs, answers, thoughts, arguments and outputs, in every store.
func TestK26AwkwardTexts(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		b, p := backend(t, store)
		for name, escaped := range awkward {
			text, clean := meant(t, escaped)
			quoted, err := json.Marshal(`{"expression":"` + escaped + `"}`)
			require.NoError(t, err)
			raw, err := json.Marshal(`{"broken":` + text)
			require.NoError(t, err)
			b.Push(openaitest.Bytes(
				delta(`{"reasoning_content":"`+escaped+`"}`), delta(`{"content":"x`+escaped+`"}`),
				callPieces(`{"index":0,"id":"ca","function":{"name":"calculator","arguments":`+string(quoted)+`}}`),
				callPieces(`{"index":1,"id":"cb","function":{"name":"calculator","arguments":`+string(raw)+`}}`), toolCalls,
			), openaitest.Bytes(delta(`{"content":"y`+escaped+`"}`), openaitest.Event(openaitest.Finish("stop")), openaitest.Done))
			p.create(fmt.Sprintf(`{"id":%q,"tools":["calculator"],"metadata":{"k":"%s"}}`, name, escaped))
			var made struct{ Metadata map[string]string }
			require.NoError(t, json.Unmarshal([]byte(p.call("GET", "/v1/sessions/"+name, "").body), &made))
			require.Equal(t, map[string]string{"k": text}, made.Metadata, name)
			body := `{"text":"i` + escaped + `","requestId":"r"}`
			p.input(name, body)
			events := p.rested(name)
			require.Equal(t, http.StatusOK, p.call("POST", "/v1/sessions/"+name+"/input", body).status, "%s: equal on retry", name)
			require.Len(t, events, 6, "%s\n%s", name, normal(events))
			said := events[1].told(t)
			require.Equal(t, "i"+text, events[0].told(t).Text, name)
			require.Equal(t, []string{text, "x" + text}, []string{said.Content[0].Thinking, said.Content[1].Text}, name)
			var args struct{ Expression string }
			require.NoError(t, json.Unmarshal(said.Content[2].Arguments, &args))
			require.Equal(t, text, args.Expression, name)
			require.Equal(t, `{"broken":`+text, said.Content[3].RawArguments, name)
			outputs := map[string]string{}
			for _, e := range events[2:4] {
				outputs[e.told(t).ToolCallID] = e.told(t).Content[0].Text
			}
			require.Equal(t, `The arguments are not one JSON object, so the call was not executed: {"broken":`+text, outputs[said.Content[3].ID], name)
			require.Equal(t, "y"+text, events[4].told(t).Content[0].Text, name)

			messages := lastMessages(t, b, 1)[0]
			require.Equal(t, "i"+clean, *messages[0].Content, name)
			require.Equal(t, "x"+clean, *messages[1].Content, name)
			require.NoError(t, json.Unmarshal([]byte(messages[1].ToolCalls[0].Function.Arguments), &args))
			require.Equal(t, clean, args.Expression, name)
			require.Equal(t, strings.ReplaceAll(outputs[said.Content[3].ID], "\x00", "\uFFFD"), *messages[3].Content, "what was stored is what is sent")
		}
		p.stop()
	})
}

// K26, C: U+0000 in what names something is refused, and nothing is written.
func TestK26NulInNames(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil, "--provider", "fake")
		for _, body := range []string{`{"id":"a\u0000"}`, `{"title":"a\u0000"}`, `{"metadata":{"a\u0000":1}}`, `{"tools":["a\u0000"]}`, `{"model":"a\u0000"}`} {
			require.Equal(t, http.StatusBadRequest, p.call("POST", "/v1/sessions", body).status, body)
		}
		p.create(`{"id":"s1"}`)
		for _, body := range []string{`{"text":"a","requestId":"a\u0000"}`, `{"text":"a","selection":{"model":"a\u0000"}}`, `{"text":"a","delivery":"queue\u0000"}`} {
			require.Equal(t, http.StatusBadRequest, p.call("POST", "/v1/sessions/s1/input", body).status, body)
		}
		require.Equal(t, http.StatusBadRequest, p.call("PATCH", "/v1/sessions/s1", `{"title":"a\u0000"}`).status)
		require.Equal(t, http.StatusBadRequest, p.call("POST", "/v1/sessions/s1/events", `{"kind":"user.message\u0000","payload":{"text":"a"}}`).status)
		require.Equal(t, http.StatusNotFound, p.call("GET", "/v1/sessions/s1%00/events", "").status)
		require.Empty(t, p.events("s1"))
		p.stop()
	})
}

// K27, A and D: what is cut is cut between characters, and what was stored is what is sent.
func TestK27Cuts(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	for name, tail := range map[string]string{"emoji": "🎉", "accent": "é", "family": "👩‍👩‍👧", "bytes": "\xc3(\xff\xfe"} {
		for shift := range 5 {
			id := fmt.Sprint(name, shift)
			raw := `{"` + strings.Repeat("a", 498-shift) + strings.Repeat(tail, 20)
			b.Push(openaitest.Bytes(callPieces(`{"index":0,"id":"ca","function":{"name":"calculator","arguments":"`+strings.ReplaceAll(raw, `"`, `\"`)+`"}}`), toolCalls), answered("ok"))
			p.create(fmt.Sprintf(`{"id":%q,"tools":["calculator"]}`, id))
			p.input(id, `{"text":"go","requestId":"r"}`)
			events := p.rested(id)
			require.Len(t, events, 5, normal(events))
			output := events[2].told(t).Content[0].Text
			require.True(t, strings.HasSuffix(output, "…"), "the cut is marked: %q", output)
			require.True(t, utf8.ValidString(output))
			if name != "bytes" {
				require.NotContains(t, output, "\uFFFD", "no half of a character is left")
			}
			require.Equal(t, output, *lastMessages(t, b, 1)[0][2].Content)
		}
	}
	b.Push(openaitest.Error(http.StatusBadRequest, openaitest.Fault(strings.Repeat("🎉é", 5000), "bad")))
	p.create(`{"id":"fault"}`)
	p.input("fault", `{"text":"go","requestId":"r"}`)
	events := p.rested("fault")
	require.NotContains(t, story(t, events), "\uFFFD")
	require.Less(t, len(last(events, "run.finished", t).Error), 10000)
}

// K27, C: an emoji in two chunks.
func TestK27HalvesInTwoChunks(t *testing.T) {
	t.Parallel()
	b, p := backend(t, newStore(t, "sqlite"))
	stop := openaitest.Event(openaitest.Finish("stop")) + openaitest.Done
	for name, c := range map[string]struct{ second, want string }{
		"joined": {delta(`{"content":"\ude00!"}`), "ok 😀!"}, "alone": {"", "ok \uFFFD"}, "other": {delta(`{"content":"x"}`), "ok \uFFFDx"},
	} {
		b.Push(openaitest.Bytes(delta(`{"content":"ok \ud83d"}`), c.second, stop), answered("ok"))
		p.create(fmt.Sprintf(`{"id":%q}`, name))
		frames := p.stream(t.Context(), name, "after=0&partials=1")
		p.input(name, `{"text":"go","requestId":"r1"}`)
		tells(t, p.rested(name), "input go", "[1] end_turn: "+c.want, "done end_turn")
		said := ""
		for said != c.want {
			piece := nextPartial(t, frames).Delta.Text
			said += piece
			require.True(t, strings.HasPrefix(c.want, said), "%q", said)
		}
		p.input(name, `{"text":"on","requestId":"r2"}`)
		p.rested(name)
		require.Equal(t, c.want, *lastMessages(t, b, 1)[0][1].Content, "the session goes on")
	}
}
