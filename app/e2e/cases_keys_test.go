package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// hangUp sends a request and closes the connection without reading the reply.
func (p *process) hangUp(path, body string) error {
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	return errors.Join(err, conn.Close())
}

// K15, 1 and K17: replies that nobody hears, of the client and of the retries, double nothing.
func TestK15LostReplies(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil, "--provider", "fake")
		p.create(`{"id":"s1"}`)
		const keys, each = 5, 8
		var group sync.WaitGroup
		for k := range keys {
			for range each {
				group.Go(func() {
					if err := p.hangUp("/v1/sessions/s1/input", fmt.Sprintf(`{"requestId":"R%d","text":"hi %d"}`, k, k)); err != nil {
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
		seqs := map[string]bool{}
		for k := range keys {
			a := p.call("POST", "/v1/sessions/s1/input", fmt.Sprintf(`{"requestId":"R%d","text":"hi %d"}`, k, k))
			require.Contains(t, []int{http.StatusOK, http.StatusCreated}, a.status, a.body)
			seqs[a.field(t, "seq")] = true
		}
		require.Len(t, seqs, keys)
		events := p.rested("s1")
		require.Equal(t, keys, count(events, "user.message"))
		story(t, events)
		p.stop()
	})
}

// K15, 2 to 8: what a key covers.
func TestK15WhatAKeyCovers(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, kind)
			b := openaitest.Start(t)
			tokens := filepath.Join(t.TempDir(), "tokens")
			require.NoError(t, os.WriteFile(tokens, []byte("ours-0123456789abcdef ours\ntheirs-0123456789abcdef theirs\n"), 0o600))
			env := []string{"OPENAI_BASE_URL=" + b.URL(), "OPENAI_MODEL=test-model", "KEEL_ATTEMPTS=1"}
			p := serve(t, store, env, "--provider", "openai", "--auth", "tokens:"+tokens)
			ours := func(method, path, body string) answer { return p.as("ours-0123456789abcdef", method, path, body) }
			theirs := func(method, path, body string) answer {
				return p.as("theirs-0123456789abcdef", method, path, body)
			}
			settled := func(get func(method, path, body string) answer, s string) (status string) {
				for range 1000 {
					if status = get("GET", "/v1/sessions/"+s+"/runs", "").field(t, "items"); !strings.Contains(status, "status:pending") && !strings.Contains(status, "status:running") {
						return status
					}
					time.Sleep(10 * time.Millisecond)
				}
				t.Fatal("the run goes on and on")
				return ""
			}
			run := func(s string) string { return settled(ours, s) }
			for _, create := range []func(method, path, body string) answer{ours, theirs} {
				for _, s := range []string{"s1", "s2"} {
					require.Equal(t, http.StatusCreated, create("POST", "/v1/sessions", `{"id":"`+s+`","tools":["calculator"]}`).status)
				}
			}
			// 8, first half: a run that fails.
			b.Push(openaitest.Error(http.StatusBadRequest, openaitest.Fault("no", "invalid_request_error")))
			first := ours("POST", "/v1/sessions/s1/input", `{"requestId":"R","text":"hi"}`)
			require.Equal(t, http.StatusCreated, first.status)
			require.Contains(t, run("s1"), "status:failed")
			// 2
			conflict := ours("POST", "/v1/sessions/s1/input", `{"requestId":"R","text":"bye"}`)
			require.Equal(t, []any{http.StatusConflict, "idempotency_conflict"}, []any{conflict.status, conflict.field(t, "code")})
			// 3
			b.Push(answered("other session"), answered("other tenant"))
			require.Equal(t, http.StatusCreated, ours("POST", "/v1/sessions/s2/input", `{"requestId":"R","text":"hi"}`).status)
			run("s2")
			require.Equal(t, http.StatusCreated, theirs("POST", "/v1/sessions/s1/input", `{"requestId":"R","text":"other text"}`).status)
			settled(theirs, "s1")
			// 4: the key of a call, and of a generation, taken by an input
			b.Push(openaitest.Stream(openaitest.CallHead(0, "call_0", "calculator"), openaitest.CallArguments(0, `{"expression":"1"}`), openaitest.Finish("tool_calls")), answered("ok"), answered("ok"))
			require.Equal(t, http.StatusCreated, ours("POST", "/v1/sessions/s1/input", `{"requestId":"call_0","text":"x"}`).status)
			require.Contains(t, run("s1"), "status:done")
			page := ours("GET", "/v1/sessions/s1/events", "").body
			_, generation, _ := strings.Cut(page, `"stopReason":"end_turn","generationId":"`)
			generation, _, _ = strings.Cut(generation, `"`)
			_, call, _ := strings.Cut(page, `"toolCallId":"`)
			call, _, _ = strings.Cut(call, `"`)
			for _, id := range []string{generation, call} {
				b.Push(answered("ok"))
				require.Equal(t, http.StatusCreated, ours("POST", "/v1/sessions/s1/input", `{"requestId":"`+id+`","text":"x"}`).status, id)
				require.Contains(t, run("s1"), "status:done")
			}
			// 5, 6, 7
			before := ours("GET", "/v1/sessions/s1/events?limit=1000", "").body
			for body, code := range map[string]string{
				`{"kind":"user.message","payload":{"text":"y","requestId":"R2"},"requestId":"R3"}`:               "invalid_key",
				`{"kind":"compaction","payload":{"summary":"s","firstKeptSeq":1},"requestId":"k"}`:               "kind_not_allowed",
				`{"kind":"run.finished","payload":{"status":"done"},"requestId":"k"}`:                            "kind_not_allowed",
				`{"kind":"user.message","payload":{"text":"y"},"requestId":""}`:                                  "invalid_key",
				`{"kind":"user.message","payload":{"text":"y"},"requestId":"` + strings.Repeat("k", 4096) + `"}`: "invalid_key",
				`{"kind":"user.message","payload":{"text":"y","requestId":"a\u0000"}}`:                           "invalid_key",
				`{"kind":"user.message","payload":{"text":"y","requestId":"a "}}`:                                "invalid_key",
				`{"kind":"user.message","payload":{"text":"y","requestId":7}}`:                                   "invalid_key",
			} {
				a := ours("POST", "/v1/sessions/s1/events", body)
				require.Equal(t, []any{http.StatusBadRequest, code}, []any{a.status, a.field(t, "code")}, body)
			}
			require.Equal(t, before, ours("GET", "/v1/sessions/s1/events?limit=1000", "").body, "nothing was written")
			b.Push(answered("ok"), answered("ok"))
			for _, body := range []string{`{"text":"absent"}`, `{"text":"null","requestId":null}`} {
				a := ours("POST", "/v1/sessions/s1/input", body)
				require.Equal(t, http.StatusCreated, a.status)
				require.Len(t, a.field(t, "requestId"), 36)
				run("s1")
			}
			// 8: in another process, after all that
			p.stop()
			p = serve(t, store, env, "--provider", "openai", "--auth", "tokens:"+tokens)
			again := ours("POST", "/v1/sessions/s1/input", `{"text":"\u0068i" , "requestId":"R"}`)
			require.Equal(t, http.StatusOK, again.status)
			require.Equal(t, []string{"false", "1", first.field(t, "run", "id")}, []string{again.field(t, "created"), again.field(t, "seq"), again.field(t, "run", "id")})
			p.stop()
		})
	}
}

// K16: what is the same payload, in every store, also for a process that reads it back.
func TestK16SamePayload(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil, "--provider", "fake")
		p.create(`{"id":"s1"}`)
		for name, c := range map[string]struct {
			first, second string
			statuses      [2]int
		}{
			"A": {`"text":"t","n":9007199254740993`, `"text":"t","n":9007199254740992`, [2]int{201, 409}},
			"B": {`"text":"t","n":1.0`, `"text":"t","n":1`, [2]int{201, 200}},
			"C": {`"text":"t","d":1,"d":2`, `"text":"t","d":2`, [2]int{400, 201}},
			"D": {`"text":"\ud83d"`, `"text":"\ufffd"`, [2]int{201, 200}},
			"E": {`"text":"t","m":1e400`, `"text":"t","m":1e400`, [2]int{201, 200}},
			"F": {`"delivery":"guide","DELIVERY":"nonsense","text":"t"`, `"delivery":"guide","DELIVERY":"nonsense","text":"t"`, [2]int{201, 200}},
			"f": {`"delivery":"queue","DELIVERY":"nonsense","text":"t"`, `"delivery":"queue","DELIVERY":"other","text":"t"`, [2]int{201, 409}},
			"G": {`"b":1, "a":2,"text":"t"`, `"a":2,"b":1,"text":"t"`, [2]int{201, 200}},
		} {
			for i, members := range []string{c.first, c.second} {
				a := p.call("POST", "/v1/sessions/s1/input", fmt.Sprintf(`{"requestId":%q,%s}`, name, members))
				require.Equal(t, c.statuses[i], a.status, "%s: %s", name, a.body)
			}
		}
		require.Equal(t, 8, count(p.rested("s1"), "user.message"))
		all := p.call("GET", "/v1/sessions/s1/events?limit=1000", "").body
		for _, kept := range []string{`"n":9007199254740993`, `"n":1.0`, `"m":1e400`, `"DELIVERY":"nonsense"`} {
			require.Contains(t, all, kept, "spelled as it came")
		}
		p.stop()
	})
}

// K16, H: a long integer in a call reaches the ledger and later requests digit for digit.
func TestK16LongIntegerInACall(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		b, p := backend(t, store)
		const args = `{"id":8123456789012345677,"m":1e400,"f":1.0,"expression":"1"}`
		b.Push(openaitest.Stream(openaitest.CallHead(0, "ca", "calculator"), openaitest.CallArguments(0, args), openaitest.Finish("tool_calls")), answered("ok"))
		p.create(`{"id":"s1","tools":["calculator"]}`)
		p.input("s1", `{"text":"go","requestId":"r"}`)
		events := p.rested("s1")
		require.Equal(t, args, string(events[1].told(t).Content[0].Arguments))
		require.Equal(t, "assistant: calculator"+args, shown(lastMessages(t, b, 1)[0])[1])
		p.stop()
	})
}
