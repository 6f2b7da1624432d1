package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// long is an answer of a thousand tokens or so that begins with name.
func long(name string) string { return name + " " + strings.Repeat("word ", 800) }

// uncounted is an answer of a backend that counts no tokens.
func uncounted(text string) openaitest.Response {
	return openaitest.Stream(openaitest.Text(text), openaitest.Finish("stop"))
}

// summarised returns the summaries of a ledger and the seqs from which it was kept.
func summarised(t *testing.T, events []event) (texts []string, kept []int64) {
	t.Helper()
	for _, e := range events {
		if e.Kind == "compaction" {
			var c struct {
				Summary      string
				FirstKeptSeq int64
			}
			require.NoError(t, json.Unmarshal(e.Payload, &c))
			texts, kept = append(texts, c.Summary), append(kept, c.FirstKeptSeq)
		}
	}
	return texts, kept
}

// heads are the lines of what a request shows, each by its beginning.
func heads(lines []string) []string {
	for i, l := range lines {
		l = strings.ReplaceAll(l, "\n", " ")
		lines[i] = strings.TrimSpace(l[:min(len(l), 70)])
	}
	return lines
}

const summaryHead = "user: Summary of the conversation before this point:  "

// A session is compacted because its context nears the window, by a backend's refusal after a restart, and because a
// client asks; each request is well formed, each summary is written from the one before, and the ledger verifies.
func TestCompactions(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, kind)
			b := openaitest.Start(t)
			b.SetModels(`{"data":[{"id":"other","context_length":100},{"id":"test-model","context_length":6000}]}`)
			env := []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_MODEL=test-model"}
			p := serve(t, store, env, "--provider", "openai")
			p.create(`{"id":"s1","tools":["calculator"]}`)
			runs := 0
			turn := func(text string, answers ...openaitest.Response) {
				b.Push(answers...)
				p.input("s1", fmt.Sprintf(`{"text":%q}`, text))
				runs++
				p.finished("s1", runs)
				require.Zero(t, b.Pending())
			}
			adding := openaitest.Stream(openaitest.CallHead(0, "c1", "calculator"), openaitest.CallArguments(0, `{"expression":"1+1"}`), openaitest.Finish("tool_calls"))
			turn("one", uncounted(long("A1")))
			turn("two", adding, uncounted(long("A2")))
			turn("three", uncounted(long("A3")))
			turn("four", uncounted(long("A4")))
			turn("five", uncounted(long("A5")))
			turn("more", uncounted("S1"), uncounted("A6"))
			texts, first := summarised(t, p.events("s1"))
			require.Equal(t, []string{"S1"}, texts)
			requests := lastMessages(t, b, 2)
			require.Contains(t, *requests[0][1].Content, "[Call of calculator]\n{\"expression\":\"1+1\"}\n\n[Result of calculator]\n2")
			require.NotContains(t, *requests[0][1].Content, "earlier_summary")
			require.Equal(t, []string{summaryHead + "S1  five", strings.TrimSpace(("assistant: " + long("A5"))[:70]), "user: more"}, heads(shown(requests[1])))

			p.stop()
			p = serve(t, store, env, "--provider", "openai") // it begins at the cut
			turn("again", openaitest.Error(http.StatusBadRequest, openaitest.Fault("This model's maximum context length is 6000 tokens.", "")), uncounted("S2"), uncounted("A7"))
			texts, kept := summarised(t, p.events("s1"))
			require.Equal(t, "S2", texts[1])
			require.Greater(t, kept[1], first[0])
			requests = lastMessages(t, b, 3)
			require.Contains(t, *requests[1][1].Content, "<earlier_summary>\nS1\n")
			require.Equal(t, []string{summaryHead + "S2  more", "assistant: A6", "user: again"}, heads(shown(requests[2])))
			require.Equal(t, []string{"user.message", "assistant.message", "compaction", "assistant.message", "run.finished"}, kinds(p.events("s1"))[len(p.events("s1"))-5:])

			turn("six", uncounted(long("A8")))
			turn("seven", uncounted("A9"))
			b.Push(uncounted("S3"))
			asked := p.call("POST", "/v1/sessions/s1/compact", "")
			require.Equal(t, http.StatusAccepted, asked.status, asked.body)
			require.NotEqual(t, "<nil>", asked.field(t, "run", "id"))
			p.rested("s1")
			texts, _ = summarised(t, p.events("s1"))
			require.Equal(t, []string{"S2", "S3"}, texts[1:])

			p.stop()
			code, out, errs := command(t, "verify", "--store", store)
			require.Zero(t, code, out+errs)
			p = serve(t, store, env, "--provider", "openai")
			runs++
			turn("eight", uncounted("A10"))
			require.Equal(t, summaryHead+"S3", strings.SplitAfter(heads(shown(lastMessages(t, b, 1)[0]))[0], "S3")[0])
			messages := p.call("GET", "/v1/sessions/s1/messages", "").body
			require.Contains(t, messages, `"role":"summary","content":[{"type":"text","text":"S3"}]`)
			newest := p.transcript("s1", "desc", 2)
			slices.Reverse(newest)
			require.Equal(t, p.transcript("s1", "asc", 500), newest)
		})
	}
}

// withheld passes requests on to a backend, but says what models there are only when it is asked for an answer, or has not been
// for half a second.
func withheld(t *testing.T, backend string) (address string) {
	t.Helper()
	answering := make(chan struct{})
	asked := sync.OnceFunc(func() { close(answering) })
	to, err := url.Parse(backend)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			asked()
		}
		select {
		case <-answering:
		case <-time.After(500 * time.Millisecond):
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + to.Path
}

// A process that has only just started knows the windows that its backends list: of the conversation, and of the model that
// writes the summaries.
func TestCompactionsOfANewProcess(t *testing.T) {
	t.Parallel()
	store := newStore(t, "sqlite")
	b := openaitest.Start(t)
	b.SetModels(`{"data":[{"id":"test-model","context_length":6000},{"id":"small","context_length":2400}]}`)
	p := serve(t, store, []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_MODEL=test-model"}, "--provider", "openai")
	p.create(`{"id":"s1"}`)
	for i := range 5 {
		b.Push(uncounted(long(fmt.Sprint("A", i))))
		p.input("s1", fmt.Sprintf(`{"text":"turn %d"}`, i))
		p.finished("s1", i+1)
	}
	p.stop()
	env := []string{"OPENAI_BASE_URL=" + withheld(t, b.URL()), "OPENAI_MODEL=test-model"}
	p = serve(t, store, env, "--provider", "openai", "--compact-model", "small")
	b.Push(uncounted("S"), uncounted("ok"))
	p.input("s1", `{"text":"more"}`)
	p.finished("s1", 6)
	texts, _ := summarised(t, p.events("s1"))
	require.Equal(t, []string{"S"}, texts)
	summary := b.Requests()[len(b.Requests())-2]
	require.Contains(t, string(summary.Body), `"model":"small"`)
	require.Contains(t, string(summary.Body), "the older part of the conversation is left out")
}
