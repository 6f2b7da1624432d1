package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// then is r with more behind it.
func then(r wiretest.Response, writes ...string) wiretest.Response {
	r.Steps = append(slices.Clone(r.Steps), wiretest.Bytes(writes...).Steps...)
	return r
}

// errorsInside are the errors of K03 in the words of each wire: the first event, the body without any "data:", the
// body in place of a stream.
var errorsInside = map[string]struct{ first, bare, whole string }{
	chatWire: {
		`data: {"id":"x","choices":[],"error":{"code":502,"message":"upstream at capacity"}}` + "\n\n" + openaitest.Done,
		`{"error":{"message":"context too large","type":"exceed_context_size_error"}}`,
		`{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"}}`,
	},
	messagesWire: {
		anthropictest.Event(anthropictest.Fault("overloaded_error", "upstream at capacity")),
		anthropictest.Fault("invalid_request_error", "context too large: prompt is too long: 210000 tokens > 200000 maximum"),
		anthropictest.Fault("not_found_error", "no such model"),
	},
	generateWire: {
		geminitest.Event(geminitest.Fault(http.StatusServiceUnavailable, "upstream at capacity")),
		geminitest.Fault(http.StatusBadRequest, "context too large: the input token count (9) exceeds the maximum number of tokens allowed (8)."),
		"[" + geminitest.Fault(http.StatusNotFound, "no such model") + "]",
	},
	responsesWire: {
		responsestest.Event(`{"type":"error","code":"server_error","message":"upstream at capacity","param":null}`),
		responsestest.Fault("context_length_exceeded", "context too large"),
		responsestest.Fault("model_not_found", "no such model"),
	},
}

// K03: errors inside an answer with status 200.
func TestK03ErrorsInsideStreams(t *testing.T) {
	t.Parallel()
	onEachWire(t, newStore(t, "sqlite"), func(t *testing.T, w onWire) {
		inside := errorsInside[w.provider]
		for name, c := range map[string]struct {
			answer   wiretest.Response
			attempts int
			text     string
			reason   string
			fault    string
		}{
			"A":                      {wiretest.Bytes(inside.first), 2, "", "attempts_exhausted", "provider: upstream at capacity"},
			"B":                      {then(w.begun(says("First we open th")), w.broken), 2, "First we open th", "attempts_exhausted", "provider: busy"},
			"C":                      {wiretest.Bytes(inside.bare + "\n"), 1, "", "permanent_failure", "context_overflow: nothing more can leave the context: provider: context too large"},
			"D":                      {wiretest.Whole(inside.whole), 1, "", "permanent_failure", "provider: no such model"},
			"in place of status 200": {wiretest.Error(http.StatusBadRequest, inside.whole), 1, "", "permanent_failure", "provider: no such model"},
		} {
			again := make(chan struct{})
			for i := range c.attempts {
				if i > 0 {
					c.answer.Steps = append([]wiretest.Step{{Until: again}}, c.answer.Steps...)
				}
				w.push(c.answer)
			}
			s := w.session(name)
			w.say(s, "how?")
			want := []string{"input how?"}
			for range c.attempts {
				want = append(want, strings.TrimSpace("[1] error: "+c.text), "failed error "+c.fault+"…")
			}
			if c.attempts > 1 {
				w.finished(s, 1)
				require.Contains(t, []any{"pending", "running"}, w.newest(s)["status"], "%s: there is budget left", name)
			}
			close(again)
			tells(t, w.rested(s), want...)
			run := w.newest(s)
			require.Equal(t, []any{"failed", c.reason, float64(c.attempts)}, []any{run["status"], run["reason"], run["attempts"]}, name)
			require.Contains(t, run["error"], c.fault)
			require.Zero(t, w.backend.Pending())

			w.push(w.ends("Push."))
			w.say(s, "again?")
			answered := "[1 4] end_turn: Push."
			if c.attempts > 1 {
				answered = "[1 6] end_turn: Push."
			}
			tells(t, w.rested(s), append(want, "input again?", answered, "done end_turn")...)
			require.Equal(t, []string{"user: how?\n\nagain?"}, w.requested(1), "%s: the input stayed unanswered; nothing of the failure is shown", name)
		}
	}, "--attempts", "2")
}

// K04: streams without an end, and the token cap.
func TestK04Ends(t *testing.T) {
	t.Parallel()
	const halfCall = `The arguments are not one JSON object, so the call was not executed: {"ms":1`
	onEachWire(t, newStore(t, "sqlite"), func(t *testing.T, w onWire) {
		for name, c := range map[string]struct {
			answer wiretest.Response
			first  []string // what the ledger says of it
			shows  []string // what the next request shows of it
		}{
			"A": {w.begun(says("The answer is")), []string{"[1] error: The answer is", "failed error provider: …"}, nil},
			"B": {w.begun(hums("Let me think")), []string{"[1] error: Let me think", "failed error provider: …"}, nil},
			"C": {w.answer("length", thinks("Let me think")), []string{"[1] error: Let me think", "failed length provider: …"}, nil},
			"D": {
				w.answer("length", calls("ca", "sleep", `{"ms":1`)),
				[]string{`[1] length: sleep{"ms":1`, "result 1 error: " + halfCall},
				[]string{`assistant: sleep{"malformed":"{\"ms\":1"}`, "tool: " + halfCall},
			},
		} {
			w.push(c.answer, w.ends("42."))
			s := w.session(name, `"tools":["sleep"]`)
			w.say(s, "what?")
			tells(t, w.rested(s), append(append([]string{"input what?"}, c.first...), "[1] end_turn: 42.", "done end_turn")...)
			require.Equal(t, append([]string{"user: what?"}, c.shows...), w.requested(1), name)
			require.Equal(t, "done", w.newest(s)["status"], name)
		}

		// E: nothing behind the reason, and a reset once it was read.
		read := make(chan struct{})
		good := then(w.begun(says("42.")), w.end(w.reasons["end_turn"], []speech{says("42.")})[0]).Ending(wiretest.Reset)
		good.Steps = append(good.Steps, wiretest.Step{Until: read})
		w.push(good)
		s := w.session("E")
		frames := w.watch(s)
		w.say(s, "what?")
		require.Equal(t, "42.", nextPartial(t, frames).Delta.Text)
		close(read)
		tells(t, w.rested(s), "input what?", "[1] end_turn: 42.", "done end_turn")

		w.push(w.answer("length", says("Once upon")))
		s = w.session("text up to the cap")
		w.say(s, "a story")
		tells(t, w.rested(s), "input a story", "[1] length: Once upon", "done length")
	})
}

// K09: what failed or says nothing is not sent again.
func TestK09NothingEmptyIsSentAgain(t *testing.T) {
	t.Parallel()
	onEachWire(t, newStore(t, "sqlite"), func(t *testing.T, w onWire) {
		// 1 and 2: aborted while it thinks.
		w.push(w.begun(thinks("Hm")).Ending(wiretest.Hang), w.ends("both"))
		s := w.session("aborted")
		frames := w.watch(s)
		w.say(s, "a")
		nextPartial(t, frames)
		require.Equal(t, http.StatusAccepted, w.call("POST", "/v1/sessions/"+s+"/cancel", `{}`).status)
		tells(t, w.rested(s), "input a", "[1] aborted: Hm", "cancelled aborted")
		w.say(s, "b")
		tells(t, w.rested(s), "input a", "[1] aborted: Hm", "cancelled aborted", "input b", "[1 4] end_turn: both", "done end_turn")
		require.Equal(t, []string{"user: a\n\nb"}, w.requested(1))

		// 3: blank text beside a call.
		w.push(w.answer("tool_use", says("\n\n"), calls("ca", "sleep", `{"ms":0}`)), w.ends("ok"))
		s = w.session("blank", `"tools":["sleep"]`)
		w.say(s, "a")
		tells(t, w.rested(s), "input a", "[1] tool_use:", "", `| sleep{"ms":0}`, "result 1: waited 0 ms", "[1] end_turn: ok", "done end_turn")
		require.Equal(t, []string{"user: a", `assistant: sleep{"ms":0}`, "tool: waited 0 ms"}, w.requested(1))

		// 4: the third attempt asks what the first did, whatever the failed ones had begun.
		w.push(w.answer("tool_use", thinks("Let me"), says("I add."), calls("ca", "calculator", `{"expression":"6*7"}`)),
			wiretest.Error(http.StatusInternalServerError, w.down), then(w.begun(thinks("Hm"), says("First we open th")), w.broken), w.ends("42."))
		s = w.session("retried", `"system":"Be brief."`, calculator)
		w.input(s, `{"text":"a","requestId":"r","selection":{"thinking":"low"}}`)
		tells(t, w.rested(s), "input a", `[1] tool_use: Let me | I add. | calculator{"expression":"6*7"}`, "result 1: 42",
			"[1] error:", "failed error provider: down…", "[1] error: Hm | First we open th", "failed error provider: busy…",
			"[1] end_turn: 42.", "done end_turn")
		w.sameRequests(3)
		thought := "<Let me> "
		if w.sign == nil {
			thought = ""
		}
		require.Equal(t, []string{"system: Be brief.", "user: a", "assistant: " + thought + `I add. calculator{"expression":"6*7"}`, "tool: 42"}, w.requested(1))
	})
}
