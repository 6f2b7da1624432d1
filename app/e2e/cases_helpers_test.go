package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// The cases_… tests replay failures that users of such servers met, against a real process and a real backend;
// docs/CASES.md lists them.

// block, and what follows, read the payloads of the ledger as a client does.
type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text"`
	Thinking     string          `json:"thinking"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Arguments    json.RawMessage `json:"arguments"`
	RawArguments string          `json:"rawArguments"`
	ProviderID   string          `json:"providerId"`
}

type told struct {
	Text        string  `json:"text"`
	RequestID   string  `json:"requestId"`
	Delivery    string  `json:"delivery"`
	Content     []block `json:"content"`
	InputSeqs   []int64 `json:"inputSeqs"`
	StopReason  string  `json:"stopReason"`
	ToolCallID  string  `json:"toolCallId"`
	IsError     bool    `json:"isError"`
	Interrupted bool    `json:"interrupted"`
	Status      string  `json:"status"`
	Error       string  `json:"error"`
}

func (e event) told(t *testing.T) told {
	t.Helper()
	var p told
	require.NoError(t, json.Unmarshal(e.Payload, &p))
	return p
}

// story is the ledger in one line per event. Calls are numbered in the order of their messages; a result names its call
// by that number. It fails when the ledger is not well formed.
func story(t *testing.T, events []event) string {
	t.Helper()
	var b strings.Builder
	numbers, results := map[string]int{}, map[string]bool{}
	for i, e := range events {
		require.EqualValues(t, i+1, e.Seq, "seqs have no gaps")
		p := e.told(t)
		switch e.Kind {
		case "user.message":
			fmt.Fprintf(&b, "%s%s\n", prefix(p.Delivery), p.Text)
		case "assistant.message":
			var parts []string
			for _, c := range p.Content {
				if c.Type == "toolCall" {
					require.NotEmpty(t, c.ID)
					require.NotEmpty(t, c.Name)
					require.Zero(t, numbers[c.ID], "call ids are unique in the session")
					numbers[c.ID] = len(numbers) + 1
				}
				parts = append(parts, c.Thinking+c.Text+c.Name+string(c.Arguments)+c.RawArguments)
			}
			fmt.Fprintf(&b, "%v %s: %s\n", p.InputSeqs, p.StopReason, strings.Join(parts, " | "))
		case "tool.result":
			require.NotZero(t, numbers[p.ToolCallID], "a result has a call")
			require.False(t, results[p.ToolCallID], "a call has one result")
			results[p.ToolCallID] = true
			fmt.Fprintf(&b, "result %d%s: %s\n", numbers[p.ToolCallID], marks(p), p.Content[0].Text)
		default:
			fmt.Fprintf(&b, "%s %s %s\n", p.Status, p.StopReason, p.Error)
		}
	}
	return b.String()
}

func prefix(delivery string) string {
	if delivery == "guide" {
		return "guide "
	}
	return "input "
}

func marks(p told) string {
	switch {
	case p.Interrupted && p.IsError:
		return " interrupted"
	case p.IsError:
		return " error"
	}
	return ""
}

// tells compares the ledger of a session with lines; a line that ends in … may go on.
func tells(t *testing.T, events []event, lines ...string) {
	t.Helper()
	got := strings.Split(strings.TrimSuffix(story(t, events), "\n"), "\n")
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
		if i < len(lines) {
			if head, open := strings.CutSuffix(lines[i], "…"); open && strings.HasPrefix(got[i], head) {
				got[i] = lines[i]
			}
		}
	}
	require.Equal(t, strings.Join(lines, "\n"), strings.Join(got, "\n"))
}

// wireMessage is a message as the backend gets it.
type wireMessage struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
	ToolCallID string `json:"tool_call_id"`
}

// messagesOf returns the messages of a request, which openaitest has read as the strictest backend would.
func messagesOf(r openaitest.Request) []wireMessage {
	var body struct{ Messages []wireMessage }
	r.JSON(&body)
	return body.Messages
}

// lastMessages returns the messages of the last n requests.
func lastMessages(t *testing.T, b *openaitest.Server, n int) [][]wireMessage {
	t.Helper()
	requests := b.Requests()
	require.GreaterOrEqual(t, len(requests), n)
	all := make([][]wireMessage, 0, n)
	for _, r := range requests[len(requests)-n:] {
		all = append(all, messagesOf(r))
	}
	return all
}

// shown is what a request says, one line per message.
func shown(messages []wireMessage) []string {
	lines := make([]string, 0, len(messages))
	for _, m := range messages {
		line := m.Role + ":"
		if m.Content != nil {
			line += " " + *m.Content
		}
		for _, c := range m.ToolCalls {
			line += " " + c.Function.Name + c.Function.Arguments
		}
		lines = append(lines, line)
	}
	return lines
}

// newest returns the newest run of a session.
func (p *process) newest(session string) map[string]any {
	p.t.Helper()
	a := p.call("GET", "/v1/sessions/"+session+"/runs?limit=1", "")
	require.Equal(p.t, http.StatusOK, a.status, a.body)
	var page struct{ Items []map[string]any }
	require.NoError(p.t, json.Unmarshal([]byte(a.body), &page))
	require.Len(p.t, page.Items, 1)
	return page.Items[0]
}

// rested waits until no run of the session is active and returns the ledger.
func (p *process) rested(session string) []event {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); p.call("GET", "/v1/sessions/"+session, "").field(p.t, "activeRun") != "<nil>"; {
		if time.Now().After(deadline) {
			p.t.Fatalf("the run goes on and on; ledger:\n%s", normal(p.events(session)))
		}
		time.Sleep(10 * time.Millisecond)
	}
	return p.events(session)
}

// as calls with a bearer token.
func (p *process) as(token, method, path, body string) answer {
	p.t.Helper()
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	require.NoError(p.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(p.t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	return answer{res.StatusCode, string(text)}
}

// kinds are the kinds of a ledger, in order.
func kinds(events []event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.Kind)
	}
	return all
}

func last(events []event, kind string, t *testing.T) told {
	t.Helper()
	for _, e := range slices.Backward(events) {
		if e.Kind == kind {
			return e.told(t)
		}
	}
	t.Fatalf("no %s", kind)
	return told{}
}
