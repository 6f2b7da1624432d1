package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// wire is how the models of a provider speak, and what a request to them shows.
type wire struct {
	provider, model string
	open            string                                     // the event before anything is said, "" for none
	items           func(all []speech) [][]string              // the events of each thing that is said
	reasons         map[string]string                          // why an answer ends, by stopReason
	end             func(reason string, all []speech) []string // the event that tells the reason, and those behind it
	broken          string                                     // the event that breaks an answer off for want of capacity
	down            string                                     // the body of an error of the server
	sign            func(thought string) string                // the signature of a thought, nil where none is sent back
	nested          bool                                       // arguments are JSON in a text, which comes in pieces
	lines           func(t *testing.T, body []byte) []string   // what a request shows, one line per message
}

// The wires by the names of their providers.
const (
	chatWire      = "openai"
	messagesWire  = "anthropic"
	generateWire  = "gemini"
	responsesWire = "openai-responses"
)

var wires = []wire{
	{
		provider: chatWire, model: openaitest.Model, items: chatItems, nested: true, lines: chatLines,
		reasons: map[string]string{"end_turn": "stop", "tool_use": "tool_calls", "length": "length"},
		end: func(reason string, _ []speech) []string {
			return []string{openaitest.Event(openaitest.Finish(reason)), openaitest.Event(openaitest.Usage(10, 2)) + openaitest.Done}
		},
		broken: openaitest.Event(openaitest.Fault("busy", "overloaded")), down: openaitest.Fault("down", "server_error"),
	},
	{
		provider: messagesWire, model: anthropictest.Model, items: messagesItems, nested: true, lines: messagesLines,
		reasons: map[string]string{"end_turn": "end_turn", "tool_use": "tool_use", "length": "max_tokens"},
		open:    anthropictest.Begin(),
		end: func(reason string, _ []speech) []string {
			return []string{anthropictest.Stop(reason), anthropictest.Event(`{"type":"message_stop"}`)}
		},
		broken: anthropictest.Event(anthropictest.Fault("overloaded_error", "busy")), down: anthropictest.Fault("api_error", "down"),
		sign: func(thought string) string { return anthropictest.Sign(anthropictest.Model, thought) },
	},
	{
		provider: generateWire, model: geminitest.Model, items: generateItems, lines: generateLines,
		reasons: map[string]string{"end_turn": "STOP", "tool_use": "STOP", "length": "MAX_TOKENS"},
		end:     func(reason string, _ []speech) []string { return []string{geminitest.Event(geminitest.Last(reason))} },
		broken:  geminitest.Event(geminitest.Fault(http.StatusServiceUnavailable, "busy")), down: geminitest.Fault(http.StatusInternalServerError, "down"),
		sign: func(thought string) string {
			return geminitest.SignPart(geminitest.Model, geminitest.Thinking(thought))
		},
	},
	{
		provider: responsesWire, model: responsestest.Model, items: responsesItems, nested: true, lines: responsesLines,
		reasons: map[string]string{"end_turn": "", "tool_use": "", "length": "max_output_tokens"},
		open:    responsestest.Created(),
		end:     responsesEnd,
		broken:  responsestest.Failed("server_error", "busy"), down: responsestest.Fault("server_error", "down"),
		sign: func(thought string) string { return responsestest.Sign(responsestest.Model, reasoningID, thought) },
	},
}

// onWire is a wire with its backend, and a server process that uses it beside others.
type onWire struct {
	wire
	*process
	backend *wiretest.Server
}

// onEachWire runs f as a subtest per wire. All share one server process on the store.
func onEachWire(t *testing.T, store string, f func(t *testing.T, w onWire), flags ...string) {
	t.Helper()
	backends, env := startBackends(t)
	p := serve(t, store, env, append([]string{"--provider", chatWire}, flags...)...)
	t.Cleanup(p.stop)
	for _, w := range wires {
		t.Run(w.provider, func(t *testing.T) {
			t.Parallel()
			f(t, w.on(t, p, backends))
		})
	}
}

// startBackends runs a backend per wire, and returns what a server process needs to find them.
func startBackends(t *testing.T) (backends map[string]*wiretest.Server, env []string) {
	t.Helper()
	backends = map[string]*wiretest.Server{
		chatWire: openaitest.Start(t), messagesWire: anthropictest.Start(t), generateWire: geminitest.Start(t), responsesWire: responsestest.Start(t),
	}
	backends[chatWire].SetModels(fmt.Sprintf(`{"data":[{"id":%q},{"id":%q}]}`, openaitest.Model, responsestest.Model))
	both := http.NewServeMux() // one address speaks two wires
	both.Handle("/", backends[chatWire])
	both.Handle("/v1/responses", backends[responsesWire])
	front := httptest.NewServer(both)
	t.Cleanup(front.Close)
	return backends, []string{
		"OPENAI_BASE_URL=" + front.URL + "/v1", "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=" + openaitest.Model, "OPENAI_WIRE=responses",
		"ANTHROPIC_BASE_URL=" + backends[messagesWire].URL(), "ANTHROPIC_API_KEY=sk-ant-test", "ANTHROPIC_MODEL=" + anthropictest.Model,
		"GEMINI_BASE_URL=" + backends[generateWire].URL(), "GEMINI_API_KEY=AIza-test", "GEMINI_MODEL=" + geminitest.Model,
	}
}

// on is w with its backend and p, whose failures are those of t.
func (w wire) on(t *testing.T, p *process, backends map[string]*wiretest.Server) onWire {
	own := *p
	own.t = t
	return onWire{w, &own, backends[w.provider]}
}

// session creates a session of the model of w, with more members of its JSON, and returns its id.
func (w onWire) session(name string, more ...string) (id string) {
	w.t.Helper()
	id = w.provider + "-" + strings.ReplaceAll(name, " ", "-")
	members := append([]string{fmt.Sprintf(`"id":%q,"model":%q`, id, w.provider+"/"+w.model)}, more...)
	w.create("{" + strings.Join(members, ",") + "}")
	return id
}

// say submits an input.
func (w onWire) say(session, text string) answer {
	w.t.Helper()
	return w.input(session, fmt.Sprintf(`{"text":%q,"requestId":%q}`, text, text))
}

// watch opens an event stream with pieces at each process: the one that has a run shows all of them, the others only
// those that follow once it knows of a reader there.
func (w onWire) watch(session string) <-chan sseEvent {
	w.t.Helper()
	all := make(chan sseEvent, 1000)
	for _, p := range append(slices.Clone(w.peers), w.process) {
		at := process{t: w.t, url: p.own}
		frames := at.stream(w.t.Context(), session, "after=0&partials=1")
		go func() {
			for f := range frames {
				all <- f
			}
		}()
	}
	return all
}

// push scripts answers.
func (w onWire) push(answers ...wiretest.Response) { w.backend.Push(answers...) }

// requested returns what the n-th request from behind shows, 1 for the last one: one line per message, thoughts in <>.
func (w onWire) requested(n int) []string {
	w.t.Helper()
	all := w.backend.Requests()
	require.GreaterOrEqual(w.t, len(all), n)
	return w.lines(w.t, all[len(all)-n].Body)
}

// sameRequests wants the last n requests to be equal byte for byte.
func (w onWire) sameRequests(n int) {
	w.t.Helper()
	all := w.backend.Requests()
	require.GreaterOrEqual(w.t, len(all), n)
	for _, r := range all[len(all)-n:] {
		require.Equal(w.t, string(all[len(all)-1].Body), string(r.Body), "a retry sends the same bytes")
	}
}

// speech is one thing that a model says, in the pieces in which it comes.
type speech struct {
	kind     string // text, thought or call
	id, name string // of a call
	unsigned bool   // of a thought
	pieces   []string
}

func says(pieces ...string) speech   { return speech{kind: "text", pieces: pieces} }
func thinks(pieces ...string) speech { return speech{kind: "thought", pieces: pieces} }

// hums is a thought whose signature does not come.
func hums(pieces ...string) speech { return speech{kind: "thought", unsigned: true, pieces: pieces} }

func calls(id, name string, pieces ...string) speech {
	return speech{kind: "call", id: id, name: name, pieces: pieces}
}

// answer is all that is said, and why it ends.
func (w wire) answer(stop string, all ...speech) wiretest.Response {
	return wiretest.Bytes(slices.Concat([]string{w.open}, slices.Concat(w.items(all)...), w.end(w.reasons[stop], all))...)
}

// ends is a text that ends the turn.
func (w wire) ends(text string) wiretest.Response { return w.answer("end_turn", says(text)) }

// begun is an answer without its end.
func (w wire) begun(all ...speech) wiretest.Response {
	return wiretest.Bytes(append([]string{w.open}, slices.Concat(w.items(all)...)...)...)
}

// interleaved is answer with the events of two things by turns.
func (w wire) interleaved(stop string, a, b speech) wiretest.Response {
	both := w.items([]speech{a, b})
	events := []string{w.open}
	for i := range both[0] {
		events = append(events, both[0][i], both[1][i])
	}
	return wiretest.Bytes(append(events, w.end(w.reasons[stop], []speech{a, b})...)...)
}

// cutWithin is r in pieces whose borders are behind the first byte of each s, far enough apart to be read one by one.
func cutWithin(r wiretest.Response, s string) wiretest.Response {
	r = wiretest.Bytes(strings.SplitAfter(strings.ReplaceAll(r.Body(), s, s[:1]+"\xff"+s[1:]), "\xff")...).Replacing("\xff", "")
	for i := range r.Steps[1:] {
		r.Steps[1+i].Delay = 20 * time.Millisecond
	}
	return r
}

// rewritten is r with what matches a pattern written otherwise.
func rewritten(r wiretest.Response, pattern, instead string) wiretest.Response {
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		r.Steps[i].Write = regexp.MustCompile(pattern).ReplaceAllString(r.Steps[i].Write, instead)
	}
	return r
}
