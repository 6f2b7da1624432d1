package apitest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

// The envelope does not count as a level of its payload, and is as strict as a payload itself.
func TestDepthAndStrictnessOfEnvelopes(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	nested := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	for _, depth := range []int{domain.MaxDepth, domain.MaxDepth + 1} {
		want := map[bool]int{true: http.StatusCreated, false: http.StatusBadRequest}[depth == domain.MaxDepth]
		payload := `{"text":"x","d":` + nested(depth-1) + `}`
		for path, body := range map[string]string{
			"/input": payload, "/events": `{"kind":"user.message","payload":` + payload + `}`,
		} {
			a := r.do(r.request(http.MethodPost, s+path, body))
			require.Equal(t, want, a.status, "%s at depth %d: %s", path, depth, a.raw)
			if want == http.StatusBadRequest {
				require.Equal(t, "invalid_json", a.code())
			}
		}
	}
	require.Len(t, r.get(s+"/events").items(), 2)

	good := `{"kind":"user.message","payload":{"text":"x"}}`
	for _, body := range []string{
		``, `null`, `[]`, `"payload"`, `{`, good[:len(good)-1], good + `x`, good + good, good[:len(good)-1] + `,}`, "\ufeff" + good,
		`{"kind":"user.message","payload":{"text":"x"},"payload":{"text":"x"}}`,
		`{"kind":"user.message","payload":{"text":"x"},"\u0070ayload":{"text":"x"}}`,
		`{"kind":"user.message","payload":{"text":"x","text":"x"}}`, `{"kind":"user.message","payload":{"text":"x",}}`,
		`{"kind":"user.message","payload":}`, `{"kind":"user.message","payload"}`, `{"kind":"user.message" "payload":{}}`,
		`{"kind":"user.message","kind":"user.message","payload":{"text":"x"}}`, `{"kind":"user.message","payload":{"text":NaN}}`,
		"{\"kind\":\"user.message\",\"payload\":{\"text\":\"\xff\"}}", "{\"kind\":\"user.message\",\"\xff\":1,\"payload\":{\"text\":\"x\"}}",
		`{"kind":"user.message","payload":{"text":"x"},"d":` + nested(domain.MaxDepth) + `}`,
	} {
		a := r.do(r.request(http.MethodPost, s+"/events", body))
		require.Equal(t, http.StatusBadRequest, a.status, body)
		require.Equal(t, "invalid_json", a.code(), body)
	}
	a := r.post(s+"/events", " {\n \"\\u0070ayload\" : { \"text\" : \"payload\" , \"n\" : 1.0 } , \"kind\" : \"user.message\" , \"x\":{\"payload\":7} , \"requestId\":\"k\" } ")
	require.Equal(t, http.StatusCreated, a.status, a.raw)
	require.Equal(t, `{"text":"payload","n":1.0,"requestId":"k"}`, payload(t, r, s, 2))
}

func TestDetailOfAnInvalidKey(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	for _, value := range []string{`""`, `" k"`, `"a\u0007"`, `7`, `"` + strings.Repeat("k", 201) + `"`} {
		a := r.post(s+"/input", `{"text":"x","requestId":`+value+`}`)
		require.Equal(t, "invalid_key", a.code(), value)
		require.Regexp(t, "^must ", a.text("detail"), value)
	}
}

func TestKeysOfOtherKinds(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	for _, key := range []string{"toolCallId", "generationId"} {
		for _, value := range []string{`"k"`, `""`, `7`, `{}`} {
			a := r.post(s+"/events", fmt.Sprintf(`{"kind":"user.message","payload":{"text":"x"},%q:%s}`, key, value))
			require.Equal(t, http.StatusBadRequest, a.status)
			require.Equal(t, "invalid_key "+key, a.code()+" "+a.text("field"))
		}
		require.Equal(t, "unknown_kind", r.post(s+"/events", fmt.Sprintf(`{"kind":"x","payload":{},%q:"k"}`, key)).code())
		a := r.post(s+"/events", fmt.Sprintf(`{"kind":"user.message","payload":{"text":"x",%q:"k"},%q:null,"other":1}`, key, key))
		require.Equal(t, http.StatusCreated, a.status, "in the payload it is edge metadata")
	}
	require.Len(t, r.get(s+"/events").items(), 2)
}

// A run that was promised and never came to be, because the session was closed, does not stay pending for ever.
func TestPromisedRunOfAClosedSession(t *testing.T) {
	r := newRig(t)
	s := r.create("s")
	r.input(s, "a", "hi")
	w := r.worker("p").claim()
	r.post(s+"/cancel", "")
	promised := r.input(s, "b", "and then").text("run", "id")
	replay := func() answer { return r.post(s+"/input", `{"requestId":"b","text":"and then"}`) }
	require.Equal(t, "pending", replay().text("run", "status"))
	r.post(s+"/close", "")
	require.Equal(t, "closing", r.get(s).text("state"))
	require.Equal(t, "failed cancelled", replay().text("run", "status")+" "+replay().text("run", "reason"), "no more runs are made")
	w.settle(domain.Success)
	require.Equal(t, "closed", r.get(s).text("state"))
	a := replay()
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, promised, a.text("run", "id"))
	require.Equal(t, "failed cancelled", a.text("run", "status")+" "+a.text("run", "reason"))
	require.Len(t, r.get(s+"/runs").items(), 1)
}

func TestManyMetadataFilters(t *testing.T) {
	r := newRig(t)
	query := func(n int) string {
		q := url.Values{}
		for i := range n {
			q.Set(fmt.Sprintf("metadata[k%d]", i), "v")
		}
		return "/v1/sessions?" + q.Encode()
	}
	members := make([]string, 16)
	for i := range members {
		members[i] = fmt.Sprintf(`"k%d":"v"`, i)
	}
	r.post("/v1/sessions", `{"id":"s","metadata":{`+strings.Join(members, ",")+`}}`)
	require.Len(t, r.do(r.request(http.MethodGet, query(16), "")).items(), 1)
	for _, n := range []int{17, 1200} {
		a := r.do(r.request(http.MethodGet, query(n), ""))
		require.Equal(t, http.StatusBadRequest, a.status)
		require.Equal(t, "invalid_request metadata", a.code()+" "+a.text("field"))
	}
}
