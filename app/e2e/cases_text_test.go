package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
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

// awkwardly is r in which TEXT, and QUOTED in arguments, stand for the JSON text of an awkward one.
func (w wire) awkwardly(r wiretest.Response, escaped, text string) wiretest.Response {
	quoted := escaped
	if w.nested {
		inner := wiretest.Quote(escaped)
		quoted = inner[1 : len(inner)-1]
	}
	pairs := []string{"TEXT", escaped, "QUOTED", quoted}
	if w.sign != nil {
		pairs = append([]string{w.sign("TEXT"), w.sign(text)}, pairs...)
	}
	return r.Replacing(pairs...)
}

// K26, K27 B and K40, 4: texts in inputs, answers, thoughts, arguments and outputs, in every store.
func TestK26AwkwardTexts(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		onEachWire(t, store, func(t *testing.T, w onWire) {
			for name, escaped := range awkward {
				text, clean := meant(t, escaped)
				w.push(
					w.awkwardly(w.answer("tool_use", thinks("TEXT"), says("xTEXT"), calls("ca", "calculator", `{"expression":"QUOTED"}`),
						calls("cb", "calculator", `{"broken":`+text)), escaped, text),
					w.awkwardly(w.ends("yTEXT"), escaped, text),
				)
				s := w.session(name, calculator, `"metadata":{"k":"`+escaped+`"}`)
				var made struct{ Metadata map[string]string }
				require.NoError(t, json.Unmarshal([]byte(w.call("GET", "/v1/sessions/"+s, "").body), &made))
				require.Equal(t, map[string]string{"k": text}, made.Metadata, name)
				body := `{"text":"i` + escaped + `","requestId":"r"}`
				w.input(s, body)
				events := w.rested(s)
				require.Equal(t, http.StatusOK, w.call("POST", "/v1/sessions/"+s+"/input", body).status, "%s: equal on retry", name)
				require.Len(t, events, 6, "%s\n%s", name, normal(events))
				require.Equal(t, "done", last(events, "run.finished", t).Status, "%s\n%s", name, normal(events))
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

				thought := ""
				if w.sign != nil && clean == text { // a signed block that would change is left out
					thought = "<" + text + "> "
				}
				request := w.requested(1)
				require.Len(t, request, 4, name)
				require.Equal(t, "user: i"+clean, request[0], name)
				first, rest, _ := strings.Cut(request[1], " calculator{")
				require.Equal(t, "assistant: "+thought+"x"+clean, first, name)
				require.NoError(t, json.NewDecoder(strings.NewReader("{"+rest)).Decode(&args))
				require.Equal(t, clean, args.Expression, name)
				for i, call := range said.Content[2:] {
					require.Equal(t, "tool: "+strings.ReplaceAll(outputs[call.ID], "\x00", "\uFFFD"), request[2+i], "%s: what was stored is what is sent", name)
				}
			}
		})
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
	onEachWire(t, newStore(t, "sqlite"), func(t *testing.T, w onWire) {
		for name, tail := range map[string]string{"emoji": "🎉", "accent": "é", "family": "👩‍👩‍👧", "bytes": "\xc3(\xff\xfe"} {
			for shift := range 5 {
				raw := `{"` + strings.Repeat("a", 498-shift) + "TAIL"
				w.push(w.answer("tool_use", calls("ca", "calculator", raw)).Replacing("TAIL", strings.Repeat(tail, 20)), w.ends("ok"))
				s := w.session(fmt.Sprint(name, shift), calculator)
				w.say(s, "go")
				events := w.rested(s)
				require.Len(t, events, 5, normal(events))
				output := events[2].told(t).Content[0].Text
				require.True(t, strings.HasSuffix(output, "…"), "the cut is marked: %q", output)
				require.True(t, utf8.ValidString(output))
				if name != "bytes" {
					require.NotContains(t, output, "\uFFFD", "no half of a character is left")
				}
				require.Equal(t, "tool: "+output, w.requested(1)[2])
			}
		}
		w.push(wiretest.Error(http.StatusBadRequest, strings.Replace(w.down, "down", strings.Repeat("🎉é", 5000), 1)))
		s := w.session("fault")
		w.say(s, "go")
		events := w.rested(s)
		require.Contains(t, story(t, events), "🎉é🎉é")
		require.NotContains(t, story(t, events), "\uFFFD")
		require.Less(t, len(last(events, "run.finished", t).Error), 10000)
	})
}

// K27, C: an emoji in two chunks.
func TestK27HalvesInTwoChunks(t *testing.T) {
	t.Parallel()
	onEachWire(t, newStore(t, "sqlite"), func(t *testing.T, w onWire) {
		for name, c := range map[string]struct{ second, want string }{
			"joined": {`\ude00!`, "ok 😀!"}, "alone": {"", "ok \uFFFD"}, "other": {"x", "ok \uFFFDx"},
		} {
			w.push(w.answer("end_turn", says("ok FIRST", "SECOND")).Replacing("FIRST", `\ud83d`, "SECOND", c.second), w.ends("ok"))
			s := w.session(name)
			frames := w.stream(t.Context(), s, "after=0&partials=1")
			w.say(s, "go")
			tells(t, w.rested(s), "input go", "[1] end_turn: "+c.want, "done end_turn")
			for said := ""; said != c.want && w.peers == nil; { // see watch
				piece := nextPartial(t, frames).Delta.Text
				said += piece
				require.True(t, strings.HasPrefix(c.want, said), "%q", said)
			}
			w.say(s, "on")
			w.rested(s)
			require.Equal(t, "assistant: "+c.want, w.requested(1)[1], "the session goes on")
		}
	})
}
