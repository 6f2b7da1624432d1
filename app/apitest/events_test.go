package apitest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

func TestEventPages(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	require.JSONEq(t, `{"events":[],"cursor":0,"hasMore":false}`, r.get(s+"/events").raw)
	for i := range 250 {
		a := r.do(r.request(http.MethodPost, s+"/input", fmt.Sprintf(`{"requestId":"%d","text":"x"}`, i)))
		require.Equal(t, http.StatusCreated, a.status)
	}
	a := r.get(s + "/events")
	require.Len(t, a.items(), 200)
	require.Equal(t, 200, a.number("cursor"))
	require.Equal(t, true, a.at("hasMore"))
	a = r.get(s + "/events?after=200&limit=5000")
	require.Len(t, a.items(), 50)
	require.Equal(t, false, a.at("hasMore"))
	a = r.get(s + "/events?after=250")
	require.JSONEq(t, `{"events":[],"cursor":250,"hasMore":false}`, a.raw)
	require.Len(t, r.get(s+"/events?limit=1").items(), 1)
	require.Len(t, r.do(r.request(http.MethodGet, s+"/events?limit=99999999999999999999", "")).items(), 250)

	for _, path := range []string{"/events", "/events/stream"} {
		a = r.get(s + path + "?after=251")
		require.Equal(t, http.StatusBadRequest, a.status)
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
		require.Equal(t, "cursor_ahead", a.code())
		require.Equal(t, 250, a.number("head"))
		for _, after := range []string{"-1", "x", "", "1.0", "+1", "%201", "0x1", "1e1", "9223372036854775808", "99999999999999999999", "%d9%a1"} {
			a = r.get(s + path + "?after=" + after)
			require.Equal(t, "invalid_cursor", a.code(), after)
			require.Equal(t, http.StatusBadRequest, a.status)
		}
		require.Equal(t, "cursor_ahead", r.get(s+path+"?after=9223372036854775807").code())
		require.Equal(t, "invalid_request", r.get(s+path+"?after=%zz").code())
	}
	for _, limit := range []string{"0", "-1", "x", "00"} {
		require.Equal(t, "invalid_request", r.get(s+"/events?limit="+limit).code())
	}
}

func TestEventPageBytes(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	text := strings.Repeat("x", 900<<10)
	for i := range 6 {
		r.input(s, fmt.Sprint(i), text)
	}
	var sizes []int
	for cursor, more := 0, true; more; {
		a := r.do(r.request(http.MethodGet, fmt.Sprintf("%s/events?after=%d", s, cursor), ""))
		require.LessOrEqual(t, len(a.raw), 4<<20)
		sizes = append(sizes, len(a.items()))
		cursor, more = a.number("cursor"), a.at("hasMore").(bool)
	}
	require.Equal(t, []int{4, 2}, sizes)
}

// K38, over HTTP: a reader at n never meets a lower seq later.
func TestReadersMissNothing(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	const writers, each = 4, 50
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				r.do(r.request(http.MethodPost, s+"/input", fmt.Sprintf(`{"requestId":"%d-%d","text":"x"}`, w, i)))
			}
		})
	}
	seqs := make([][]int, 4)
	for i := range seqs {
		reading.Go(func() {
			for cursor := 0; cursor < writers*each; {
				a := r.do(r.request(http.MethodGet, fmt.Sprintf("%s/events?after=%d&limit=%d", s, cursor, 1+rand.IntN(20)), ""))
				for _, e := range a.items() {
					seqs[i] = append(seqs[i], int(e["seq"].(float64)))
				}
				cursor = a.number("cursor")
			}
		})
	}
	streamed := r.stream(s+"/events/stream", "")
	writing.Wait()
	reading.Wait()
	want := make([]int, writers*each)
	for i := range want {
		want[i] = i + 1
	}
	for _, got := range seqs {
		require.Equal(t, want, got)
	}
	for _, seq := range want {
		require.Equal(t, fmt.Sprint(seq), streamed.next().id)
	}
}

func TestRunPages(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	w := r.worker("p")
	require.JSONEq(t, `{"run":null}`, r.post(s+"/run", "").raw, "nothing to do")
	require.JSONEq(t, `{"run":null}`, r.post(s+"/cancel", "").raw)
	require.JSONEq(t, `{"run":null}`, r.post(s+"/cancel", `{"runId":"unknown"}`).raw)
	for i := range 7 {
		r.input(s, fmt.Sprint(i), "hi")
		a := w.claim()
		a.say(fmt.Sprint("g", i), "ho", domain.Seq(3*i+1))
		a.settle(domain.Success)
	}
	var got []string
	pages := 0
	for cursor := ""; ; pages++ {
		a := r.get(s + "/runs?limit=3" + cursor)
		for _, run := range a.items() {
			require.Equal(t, "done", run["status"])
			got = append(got, run["createdAt"].(string))
		}
		if a.text("nextCursor") == "" {
			break
		}
		cursor = "&cursor=" + a.text("nextCursor")
	}
	require.Len(t, got, 7)
	require.Equal(t, 2, pages)
	require.IsDecreasing(t, got, "newest first")
	require.Equal(t, "invalid_cursor", r.get(s+"/runs?cursor=x").code())
	require.Equal(t, "invalid_request", r.get(s+"/runs?limit=0").code())
	for _, body := range []string{`{"runId":7}`, `{"runId":""}`, `{"runId":"a\u0000"}`} {
		a := r.post(s+"/cancel", body)
		require.Equal(t, "invalid_request runId", a.code()+" "+a.text("field"))
	}
	usage := r.get(s).at("usage")
	require.Equal(t, map[string]any{"input": 70.0, "output": 21.0}, usage)
}

// A compaction that is asked for is the work of a run of its own; what its summary used counts.
func TestCompactNow(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	w := r.worker("p")
	for i, text := range []string{"one", "two"} {
		r.input(s, text, text)
		a := w.claim()
		a.say(fmt.Sprint("g", i), "ho", domain.Seq(3*i+1))
		a.settle(domain.Success)
	}
	asked := r.post(s+"/compact", "")
	require.Equal(t, http.StatusAccepted, asked.status, asked.raw)
	require.Equal(t, "pending", asked.text("run", "status"))
	require.Equal(t, asked.body, r.post(s+"/compact", "{}").body, "idempotent")
	a := w.claim()
	before := r.get(s).at("usage", "input").(float64)
	p, err := domain.Compacted{Summary: "so far", FirstKept: 4, Usage: &domain.Usage{Input: 100, Output: 7}}.Payload(0)
	require.NoError(t, err)
	a.do(domain.AppendCompaction{At: r.clock.Now(), Run: a.run, Token: a.token, Payload: p})
	a.settle(domain.Success)
	require.Equal(t, before+100, r.get(s).at("usage", "input"))
	require.Equal(t, "summary", r.get(s + "/messages").items()[0]["role"])
	require.Equal(t, "done", r.get(s + "/runs").items()[0]["status"])
	r.post(s+"/close", "")
	require.Equal(t, "session_closed", r.post(s+"/compact", "").code())
}

func TestRetryOfAFailedTurn(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	failed := r.input(s, "k", "hi").text("run", "id")
	w := r.worker("p")
	w.claim().settle(domain.Permanent)
	a := r.get(s + "/runs").items()[0]
	require.Equal(t, "failed", a["status"])
	require.NotEmpty(t, a["reason"])
	again := r.post(s+"/run", "{}")
	require.Equal(t, http.StatusAccepted, again.status)
	require.NotEqual(t, failed, again.text("run", "id"))
	require.Equal(t, again.body, r.post(s+"/run", "").body, "idempotent")
	at := w.claim()
	at.say("g", "ho", 1)
	at.settle(domain.Success)
	require.Equal(t, []string{"user.message", "run.finished", "assistant.message", "run.finished"}, kinds(r.get(s+"/events")))
}

func TestMessages(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	require.JSONEq(t, `{"items":[]}`, r.get(s+"/messages").raw)
	r.post(s+"/input", `{"requestId":"a","text":"what time","content":[{"type":"image","mimeType":"image/png","data":"AA=="}]}`)
	w := r.worker("p").claim()
	w.commit(domain.Assistant{
		GenerationID: "g1", InputSeqs: []domain.Seq{1}, StopReason: domain.StopToolUse, Usage: &domain.Usage{Input: 5, Output: 1},
		Content: []domain.Block{
			{Type: domain.ThinkingBlock, Thinking: "hm", Signature: "sig"},
			{Type: domain.CallBlock, ID: "c1", Name: "time", Arguments: `{"zone":"UTC","n":1.0}`, ProviderID: "call_0"},
		},
	})
	r.post(s+"/input", `{"requestId":"b","text":"hurry","delivery":"guide"}`)
	w.result(domain.ToolOutput{ToolCallID: "c1", Content: []domain.Block{{Type: domain.TextBlock, Text: "<noon>"}}, DurationMS: 4})
	w.commit(domain.Assistant{GenerationID: "g2", StopReason: domain.StopError, Error: "overloaded", Content: []domain.Block{{Type: domain.TextBlock, Text: "It is"}}})
	a := r.get(s + "/messages")
	want := `{"items":[
		{"seq":1,"role":"user","content":[{"type":"text","text":"what time"},{"type":"image","mimeType":"image/png","data":"AA=="}],"requestId":"a","delivery":"queue"},
		{"seq":2,"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},
			{"type":"toolCall","id":"c1","name":"time","arguments":{"zone":"UTC","n":1.0},"providerId":"call_0"}],
			"stopReason":"tool_use","generationId":"g1","inputSeqs":[1],"provider":"fake","model":"fake","usage":{"input":5,"output":1},
			"results":[{"toolCallId":"c1","content":[{"type":"text","text":"<noon>"}],"isError":false,"durationMs":4}]},
		{"seq":5,"role":"assistant","content":[{"type":"text","text":"It is"}],"stopReason":"error","error":"overloaded","generationId":"g2","provider":"fake","model":"fake"},
		{"seq":3,"role":"user","content":[{"type":"text","text":"hurry"}],"requestId":"b","delivery":"guide","waiting":true}]}`
	require.JSONEq(t, want, a.raw)
	require.Contains(t, a.raw, `"n":1.0`)

	page := r.get(s + "/messages?limit=2")
	require.Len(t, page.items(), 2)
	w.say("g3", "Noon", 1, 3)
	rest := r.get(s + "/messages?limit=2&cursor=" + page.text("nextCursor"))
	require.Equal(t, a.items(), append(page.items(), rest.items()...), "pages show one state of the ledger")
	require.Empty(t, rest.text("nextCursor"))
	require.Len(t, r.get(s+"/messages").items(), 5)

	newest := r.get(s + "/messages?order=desc&limit=3")
	require.Equal(t, []any{6.0, 3.0, 5.0}, []any{newest.items()[0]["seq"], newest.items()[1]["seq"], newest.items()[2]["seq"]})
	rest = r.get(s + "/messages?order=desc&limit=3&cursor=" + newest.text("nextCursor"))
	all := r.get(s + "/messages?order=asc").items()
	slices.Reverse(all)
	require.Equal(t, all, append(newest.items(), rest.items()...))
	require.Empty(t, rest.text("nextCursor"))
	r.get(s+"/messages?cursor="+newest.text("nextCursor")).refused(t, "invalid_cursor", "of the other order")
	r.get(s+"/messages?order=desc&cursor="+page.text("nextCursor")).refused(t, "invalid_cursor", "of the other order")
	bad := r.get(s + "/messages?order=newest")
	bad.refused(t, "invalid_request", "no order")
	require.Equal(t, "order", bad.text("field"))
	for _, cursor := range []string{"x", page.text("nextCursor")[1:], r.get("/v1/sessions?limit=1").text("nextCursor") + "A"} {
		require.Equal(t, "invalid_cursor", r.get(s+"/messages?cursor="+cursor).code())
	}
	other := r.create("other")
	require.Equal(t, "invalid_cursor", r.get(other+"/messages?cursor="+page.text("nextCursor")).code(), "beyond this ledger's head")
}
