package apitest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

// K15: what a key covers.
func TestSameRequestManyTimes(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	const n = 20
	answers := make([]answer, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = r.post(s1+"/input", `{"requestId":"R","text":"hi"}`) })
	}
	all.Wait()
	created := 0
	for _, a := range answers {
		if a.status == http.StatusCreated {
			created++
		}
		require.Equal(t, a.at("created"), a.status == http.StatusCreated)
		require.Equal(t, "R", a.text("requestId"))
		require.Equal(t, 1, a.number("seq"))
		require.Equal(t, "queue", a.text("delivery"))
		require.Equal(t, answers[0].text("run", "id"), a.text("run", "id"))
	}
	require.Equal(t, 1, created)
	require.Len(t, r.get(s1+"/events").items(), 1)
	require.Len(t, r.get(s1+"/runs").items(), 1)

	a := r.post(s1+"/input", `{"requestId":"R","text":"bye"}`)
	require.Equal(t, http.StatusConflict, a.status)
	require.Equal(t, "idempotency_conflict", a.code())
	require.Len(t, r.get(s1+"/events").items(), 1)

	s2 := r.create("s2")
	require.Equal(t, http.StatusCreated, r.post(s2+"/input", `{"requestId":"R","text":"hi"}`).status)
	r.as(theirs).create("s1")
	require.Equal(t, http.StatusCreated, r.as(theirs).post(s1+"/input", `{"requestId":"R","text":"hi"}`).status)
}

func TestRequestIDsDoNotBlockTheOwner(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	r.input(s1, "call_0", "x")
	r.input(s1, "gen_0", "y")
	w := r.worker("p").claim()
	w.commit(domain.Assistant{
		GenerationID: "gen_0", InputSeqs: []domain.Seq{1, 2}, StopReason: domain.StopToolUse,
		Content: []domain.Block{{Type: domain.CallBlock, ID: "call_0", Name: "time", Arguments: "{}"}},
	})
	w.result(domain.ToolOutput{ToolCallID: "call_0", Content: []domain.Block{{Type: domain.TextBlock, Text: "now"}}})
	w.say("gen_1", "done", 1, 2)
	w.settle(domain.Success)
	require.Equal(t, []string{"user.message", "user.message", "assistant.message", "tool.result", "assistant.message", "run.finished"},
		kinds(r.get(s1+"/events")))
}

func kinds(a answer) []string {
	var out []string
	for _, e := range a.items() {
		out = append(out, e["kind"].(string))
	}
	return out
}

func TestEnvelopeAndPayloadMustAgree(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	a := r.post(s1+"/events", `{"kind":"user.message","payload":{"text":"y","requestId":"R2"},"requestId":"R3"}`)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "invalid_key requestId", a.code()+" "+a.text("field"))
	require.Empty(t, r.get(s1+"/events").items())

	a = r.post(s1+"/events", `{"kind":"user.message","payload":{"text":"y"},"requestId":"R3"}`)
	require.Equal(t, http.StatusCreated, a.status, a.raw)
	require.Equal(t, `{"text":"y","requestId":"R3"}`, payload(t, r, s1, 0))
	same := r.post(s1+"/input", `{"requestId":"R3","text":"y"}`)
	require.Equal(t, http.StatusOK, same.status, "the same command")
	require.Equal(t, a.text("run", "id"), same.text("run", "id"))
	both := r.post(s1+"/events", `{"kind":"user.message","payload":{"text":"y","requestId":"R3"},"requestId":"R3"}`)
	require.Equal(t, same.raw, both.raw)
	require.Equal(t, http.StatusCreated, r.post(s1+"/events", `{"kind":"user.message","payload":{"text":"z"},"requestId":null}`).status)
}

// payload returns the stored payload of event i as it is spelled.
func payload(t *testing.T, r *rig, session string, i int) string {
	t.Helper()
	raw := r.get(fmt.Sprintf("%s/events?after=%d&limit=1", session, i)).raw
	_, raw, ok := strings.Cut(raw, `"payload":`)
	require.True(t, ok, raw)
	raw, _, ok = strings.Cut(raw, `,"createdAt"`)
	require.True(t, ok, raw)
	return raw
}

func TestShapesOfRequestIDs(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	minted := r.post(s1+"/input", `{"text":"a"}`)
	require.Equal(t, http.StatusCreated, minted.status)
	require.Len(t, minted.text("requestId"), 36)
	require.Equal(t, fmt.Sprintf(`{"text":"a","requestId":%q}`, minted.text("requestId")), payload(t, r, s1, 0))
	null := r.post(s1+"/input", `{"requestId":null,"text":"a"}`)
	require.Equal(t, http.StatusCreated, null.status)
	require.Equal(t, fmt.Sprintf(`{"requestId":%q,"text":"a"}`, null.text("requestId")), payload(t, r, s1, 1))
	require.Equal(t, http.StatusOK, r.post(s1+"/input", fmt.Sprintf(`{"requestId":%q,"text":"a"}`, minted.text("requestId"))).status)

	for _, id := range []string{`""`, `"` + strings.Repeat("k", 4096) + `"`, `"a\u0000b"`, `"a "`, `" a"`, `"a\nb"`, `7`, `{}`, `[]`, `true`} {
		for path, body := range map[string]string{
			"/input":  `{"text":"a","requestId":` + id + `}`,
			"/events": `{"kind":"user.message","payload":{"text":"a"},"requestId":` + id + `}`,
		} {
			a := r.post(s1+path, body)
			require.Equal(t, http.StatusBadRequest, a.status, body)
			require.Equal(t, "invalid_key requestId", a.code()+" "+a.text("field"), body)
		}
	}
	require.Len(t, r.get(s1+"/events").items(), 2, "nothing was written")
}

func TestReplayLongAfter(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	first := r.input(s1, "R", "hi")
	w := r.worker("p").claim()
	w.do(domain.AppendCompaction{At: r.clock.Now(), Run: w.run, Token: w.token, Payload: domain.StoredPayload(`{"summary":"s","firstKeptSeq":1}`)})
	w.settle(domain.Permanent)
	r.clock.advance(30 * 24 * time.Hour)
	again := r.post(s1+"/input", `{"requestId":"R","text":"hi"}`)
	require.Equal(t, http.StatusOK, again.status, again.raw)
	require.Equal(t, 1, again.number("seq"))
	require.Equal(t, first.text("run", "id"), again.text("run", "id"))
	require.Equal(t, "failed", again.text("run", "status"))
	require.NotEmpty(t, again.text("run", "settledAt"))
	require.Nil(t, r.get(s1).at("activeRun"), "a replay starts nothing")

	r.post(s1+"/close", "")
	require.Equal(t, http.StatusOK, r.post(s1+"/input", `{"requestId":"R","text":"hi"}`).status, "even after the close")
	require.Equal(t, "session_closed", r.post(s1+"/input", `{"requestId":"new","text":"hi"}`).code())
}

// An input after a cancel is answered by a run that exists only once the cancelled one has ended.
func TestPromisedRun(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	active := r.input(s1, "a", "hi").text("run", "id")
	w := r.worker("p").claim()
	cancelled := r.post(s1+"/cancel", fmt.Sprintf(`{"runId":%q}`, active))
	require.Equal(t, http.StatusAccepted, cancelled.status)
	require.Equal(t, true, cancelled.at("run", "cancelRequested"))
	next := r.input(s1, "b", "and then").text("run", "id")
	require.NotEqual(t, active, next)
	again := r.post(s1+"/input", `{"requestId":"b","text":"and then"}`)
	require.Equal(t, next, again.text("run", "id"))
	require.Equal(t, "pending", again.text("run", "status"))
	w.settle(domain.Success)
	again = r.post(s1+"/input", `{"requestId":"b","text":"and then"}`)
	require.Equal(t, next, again.text("run", "id"))
	require.NotEmpty(t, again.text("run", "createdAt"))
	require.Equal(t, "failed", r.post(s1+"/cancel", fmt.Sprintf(`{"runId":%q}`, active)).text("run", "status"), "a late retry")
	require.Equal(t, false, r.get(s1).at("activeRun", "cancelRequested"))
}

// K16: what counts as the same payload.
func TestSamePayload(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	for name, c := range map[string]struct {
		first, second string
		firstStatus   int
		secondStatus  int
	}{
		"A big integers":    {`"text":"t","n":9007199254740993`, `"text":"t","n":9007199254740992`, 201, 409},
		"B 1.0 and 1":       {`"text":"t","n":1.0`, `"text":"t","n":1`, 201, 200},
		"C duplicate keys":  {`"text":"t","d":1,"d":2`, `"text":"t","d":2`, 400, 201},
		"D lone surrogates": {`"text":"\ud83d"`, `"text":"\ufffd"`, 201, 200},
		"E huge exponent":   {`"text":"t","m":1e400`, `"text":"t","m":1e400`, 201, 200},
		"F case of keys":    {`"delivery":"guide","DELIVERY":"nonsense","text":"t"`, `"delivery":"guide","DELIVERY":"nonsense","text":"t"`, 201, 200},
		"G order and space": {`"b":1, "a":2,"text":"t"`, `"text":"\u0074" , "a":2,"b":1`, 201, 200},
		"null is there":     {`"text":"t","x":null`, `"text":"t"`, 201, 409},
		"array order":       {`"text":"t","x":[1,2]`, `"text":"t","x":[2,1]`, 201, 409},
		"no normalisation":  {`"text":"\u00e9"`, `"text":"e\u0301"`, 201, 409},
	} {
		first := r.post(s1+"/input", fmt.Sprintf(`{"requestId":%q,%s}`, name, c.first))
		require.Equal(t, c.firstStatus, first.status, name+first.raw)
		second := r.post(s1+"/input", fmt.Sprintf(`{"requestId":%q,%s}`, name, c.second))
		require.Equal(t, c.secondStatus, second.status, name+second.raw)
		if c.secondStatus == http.StatusOK {
			require.Equal(t, first.number("seq"), second.number("seq"), name)
		}
		if c.firstStatus == http.StatusBadRequest {
			require.Equal(t, "invalid_json", first.code(), name)
		}
	}
	require.Equal(t, http.StatusCreated, r.post(s1+"/input", `{"requestId":"E2","text":"t","m":1e400}`).status)
	events := r.get(s1 + "/events").raw
	require.Contains(t, events, `"m":1e400`)
	require.Contains(t, events, `"n":1.0`)
	require.Contains(t, events, `"n":9007199254740993`)
}

func TestDemotedGuideEqualsItsRetry(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	body := `{"requestId":"g","text":"now","delivery":"guide"}`
	a := r.post(s1+"/input", body)
	require.Equal(t, "queue", a.text("delivery"), "no attempt runs")
	require.Equal(t, `{"requestId":"g","text":"now","delivery":"queue","requestedDelivery":"guide"}`, payload(t, r, s1, 0))
	again := r.post(s1+"/input", body)
	require.Equal(t, http.StatusOK, again.status)
	require.Equal(t, "queue", again.text("delivery"))
	r.worker("p").claim()
	require.Equal(t, "guide", r.post(s1+"/input", `{"text":"steer","delivery":"guide"}`).text("delivery"))
	a = r.post(s1+"/input", `{"text":"x","requestedDelivery":"guide"}`)
	require.Equal(t, "invalid_payload requestedDelivery", a.code()+" "+a.text("field"))
}

func TestRefusedEvents(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	for _, c := range []struct{ body, want string }{
		{`{"kind":"nonsense","payload":7,"requestId":7}`, "unknown_kind kind"},
		{`{"payload":{"text":"x"}}`, "unknown_kind kind"},
		{`{"kind":7,"payload":{"text":"x"}}`, "invalid_request kind"},
		{`{"kind":"User.Message","payload":{"text":"x"}}`, "unknown_kind kind"},
		{`{"kind":"assistant.message","payload":{},"requestId":"k"}`, "kind_not_allowed kind"},
		{`{"kind":"compaction","payload":{"summary":"","firstKeptSeq":1},"requestId":"k"}`, "kind_not_allowed kind"},
		{`{"kind":"run.finished","payload":{"status":"done"},"requestId":"k"}`, "kind_not_allowed kind"},
		{`{"kind":"external.event","payload":{"backend":"b","externalRef":"r"}}`, "kind_not_allowed kind"},
		{`{"kind":"user.message","payload":[],"requestId":7}`, "invalid_key requestId"},
		{`{"kind":"user.message","payload":[]}`, "invalid_payload payload"},
		{`{"kind":"user.message"}`, "invalid_payload payload"},
		{`{"kind":"user.message","payload":{}}`, "invalid_payload text"},
		{`{"kind":"user.message","payload":{"text":1}}`, "invalid_payload text"},
		{`{"kind":"user.message","payload":{"text":"x","delivery":"later"}}`, "invalid_payload delivery"},
		{`{"kind":"user.message","payload":{"text":"x","selection":[]}}`, "invalid_payload selection"},
		{`{"kind":"user.message","payload":{"text":"x","selection":{"a":"\u0000"}}}`, "invalid_payload selection"},
		{`{"kind":"user.message","payload":{"text":"x","retryOf":-1}}`, "invalid_payload retryOf"},
		{`{"kind":"user.message","payload":{"content":"x"}}`, "invalid_payload content"},
		{`{"kind":"user.message","payload":{"content":""}}`, "invalid_payload content"},
		{`{"kind":"user.message","payload":{"content":[{"type":"txt","text":"x"}]}}`, "invalid_payload content/0"},
	} {
		a := r.post(s1+"/events", c.body)
		require.Equal(t, http.StatusBadRequest, a.status, c.body)
		require.Equal(t, c.want, a.code()+" "+a.text("field"), c.body)
		missing := r.post("/v1/sessions/nowhere/events", c.body)
		require.Equal(t, a.raw, missing.raw, "the payload is looked at before the session")
	}
	require.Equal(t, http.StatusNotFound, r.post("/v1/sessions/nowhere/events", `{"kind":"user.message","payload":{"text":"x"}}`).status)
	require.Empty(t, r.get(s1+"/events").items())
}

// TestSentContent: what no model could be shown is refused when it is sent, not left out when it is read.
func TestSentContent(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	const types = "an input takes blocks of the types text and image"
	for _, c := range []struct{ input, field, detail string }{
		{`"content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"u"}}]`, "content/1", `block 1 is of the type "image_url"; ` + types},
		{`"text":"x","content":[{"type":"txt","text":"x"}]`, "content/0", `block 0 is of the type "txt"; ` + types},
		{`"text":"x","content":[{"type":"toolCall","id":"c","name":"n"}]`, "content/0", `block 0 is of the type "toolCall"; ` + types},
		{`"text":"x","content":[{"text":"x"}]`, "content/0", "block 0 has no type; " + types},
		{`"text":"x","content":[{"type":"text"}]`, "content/0", "block 0 has no text; " + types},
		{`"content":[{"type":"image","data":"AA=="}]`, "content/0", "block 0 has no mimeType; " + types},
		{`"content":[{"type":"image","mimeType":"image/png"}]`, "content/0", "block 0 has no data; " + types},
		{`"content":[{"type":"image","mimeType":"image/png","data":"data:image/png;base64,AA=="}]`, "content/0", "block 0 has data that is not plain base64; " + types},
		{`"content":[]`, "content", "is empty"},
		{`"text":"","content":[]`, "content", "is empty"},
		{`"text":" ","content":[{"type":"text","text":"\n"}]`, "content", "is empty: no block says anything"},
		{`"text":""`, "text", "is empty"},
		{`"text":"\n\t "`, "text", "is empty"},
	} {
		for path, body := range map[string]string{"/input": `{` + c.input + `}`, "/events": `{"kind":"user.message","payload":{` + c.input + `}}`} {
			a := r.post(s1+path, body)
			require.Equal(t, http.StatusBadRequest, a.status, body)
			require.Equal(t, []string{"invalid_payload", c.field, c.detail}, []string{a.code(), a.text("field"), a.text("detail")}, body)
		}
	}
	require.Empty(t, r.get(s1+"/events").items())
	for _, input := range []string{
		`"text":"","content":[{"type":"image","mimeType":"image/heic","data":"AA=="}]`, `"text":"x","content":[]`,
		`"content":[{"type":"text","text":"\n"},{"type":"text","text":"x","cite":[1]}]`,
	} {
		require.Equal(t, http.StatusCreated, r.post(s1+"/input", `{`+input+`}`).status, input)
	}
}

// What an earlier version accepted is answered to its retry, though it would be refused now.
func TestRetryOfWhatIsNoLongerAccepted(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	ref := domain.SessionRef{Tenant: "ours", Session: "s1"}
	stored := domain.StoredPayload(`{"text":" ","requestId":"r"}`)
	_, err := r.store.Do(t.Context(), ref, domain.SubmitInput{At: time.Now(), RequestID: "r", Payload: stored, NewRun: "run"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.post(s1+"/input", `{"text":" ","requestId":"r"}`).status)
	require.Equal(t, "invalid_payload", r.post(s1+"/input", `{"text":" ","requestId":"q"}`).code())
}

func TestTooManyInputs(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	for i := range domain.MaxUnanswered {
		a := r.do(r.request(http.MethodPost, s1+"/input", fmt.Sprintf(`{"requestId":"%d","text":"x"}`, i)))
		require.Equal(t, http.StatusCreated, a.status)
	}
	a := r.post(s1+"/input", `{"text":"one more"}`)
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Equal(t, "too_many_inputs", a.code())
	require.Contains(t, a.text("detail"), fmt.Sprint(domain.MaxUnanswered))
	require.Contains(t, a.text("detail"), "/run", "what to do when no run is active")
	require.Equal(t, http.StatusOK, r.post(s1+"/input", `{"requestId":"0","text":"x"}`).status)
}

func TestPayloadBounds(t *testing.T) {
	r := newRig(t)
	s1 := r.create("s1")
	fixed := len(`{"requestId":"k","text":""}`)
	exact := strings.Repeat("x", domain.DefaultMaxPayload-fixed)
	require.Equal(t, http.StatusCreated, r.post(s1+"/input", `{"requestId":"k","text":"`+exact+`"}`).status)
	a := r.post(s1+"/input", `{"requestId":"k","text":"`+exact+`x"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	require.Equal(t, "payload_too_large", a.code())
	a = r.post(s1+"/input", `{"text":"`+exact+`"}`)
	require.Equal(t, "payload_too_large", a.code(), "a minted requestId counts")
	a = r.post(s1+"/input", `{"text":"`+exact+exact+`"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status, "the body as a whole")
	deep := strings.Repeat(`[`, 63) + strings.Repeat(`]`, 63)
	require.Equal(t, http.StatusCreated, r.post(s1+"/input", `{"text":"x","d":`+deep+`}`).status)
	require.Equal(t, "invalid_json", r.post(s1+"/input", `{"text":"x","d":[`+deep+`]}`).code())
}

// An input that names in retryOf what cannot be replaced is an input like any other.
func TestRetryOfNothing(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	r.input(s, "r1", "first") // 1
	w := r.worker("p1").claim()
	w.say("g1", "answer", 1) // 2
	w.settle(domain.Success)
	for i, of := range []string{"0", "1", "2", "7", "99", "1e3"} { // none, answered, no input, itself, later ones
		a := r.post(s+"/input", fmt.Sprintf(`{"text":"again","requestId":"again %d","retryOf":%s}`, i, of))
		require.Equal(t, http.StatusCreated, a.status, a.raw)
	}
	r.worker("p2").claim().say("g2", "answer", 4, 5, 6, 7, 8, 9)
	shown := 0
	for _, m := range r.get(s + "/messages").items() {
		if m["role"] == "user" {
			shown++
		}
	}
	require.Equal(t, 7, shown, "each stands for itself")
	for _, bad := range []string{"-1", "1.5", `"1"`, "null", "99999999999999999999"} {
		a := r.post(s+"/input", `{"text":"x","retryOf":`+bad+`}`)
		require.Equal(t, "invalid_payload", a.code(), a.raw)
		require.Equal(t, "retryOf", a.text("field"))
	}
}
