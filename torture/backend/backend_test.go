package backend

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keel-agent/keel/torture/check"
)

func ask(t *testing.T, s *Server, messages string) (int, string, error) {
	t.Helper()
	res, err := http.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(`{"messages":[`+messages+`]}`))
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// text joins the pieces of an answer, and tells the calls in it.
func text(t *testing.T, body string) (said string, calls []string, reason string) {
	t.Helper()
	for event := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string
					ToolCalls []struct {
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				FinishReason string `json:"finish_reason"`
			}
		}
		if data := strings.TrimPrefix(event, "data: "); data == "[DONE]" {
			continue
		} else if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%q: %v", event, err)
		}
		for _, c := range chunk.Choices {
			said += c.Delta.Content
			reason = c.FinishReason
			for _, call := range c.Delta.ToolCalls {
				calls = append(calls, call.Function.Name+call.Function.Arguments)
			}
		}
	}
	return said, calls, reason
}

func user(text string) string { return `{"role":"user","content":"` + text + `"}` }

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestAnswersNameAllInputs(t *testing.T) {
	s := start(t)
	first := user(check.Token("a") + " [do:pieces=1,tools=cs,rounds=1,sleep=5]")
	_, body, err := ask(t, s, first)
	if err != nil {
		t.Fatal(err)
	}
	said, calls, reason := text(t, body)
	if said != "saw [in:a]" || reason != "tool_calls" || len(calls) != 2 || !strings.HasPrefix(calls[0], `calculator{"expression":"`) || calls[1] != `sleep{"ms":5}` {
		t.Errorf("%q %q %q", said, calls, reason)
	}
	again := first + `,{"role":"assistant","content":"saw [in:a]","tool_calls":[{}]},{"role":"tool","content":"1"}`
	_, body, _ = ask(t, s, again)
	if said, calls, reason := text(t, body); said != "saw [in:a]" || reason != "stop" || len(calls) > 0 {
		t.Errorf("behind its tools: %q %q %q", said, calls, reason)
	}
	over := again + `,{"role":"assistant","content":"saw [in:a]"},` + user(check.Token("b")+" [do:pieces=4]\\n\\n"+check.Token("c"))
	_, body, _ = ask(t, s, over)
	if said, calls, _ := text(t, body); said != "saw [in:a] [in:b] [in:c]" || len(calls) > 0 || strings.Count(body, `"content"`) != 4 {
		t.Errorf("the next turn: %q %q in %s", said, calls, body)
	}
}

func TestFaultsByInput(t *testing.T) {
	for kind, failed := range map[string]func(status int, body string, err error) bool{
		"503":   func(status int, _ string, _ error) bool { return status == 503 },
		"400":   func(status int, _ string, _ error) bool { return status == 400 },
		"cut":   func(_ int, body string, err error) bool { return err == nil && !strings.Contains(body, "[DONE]") },
		"error": func(_ int, body string, _ error) bool { return strings.Contains(body, "overloaded") },
		"reset": func(_ int, _ string, err error) bool { return err != nil },
	} {
		t.Run(kind, func(t *testing.T) {
			s := start(t)
			message := user(check.Token("a") + " [do:pieces=2,fail=" + kind + ",times=2]")
			for n := range 3 {
				status, body, err := ask(t, s, message)
				if got := failed(status, body, err); got != (n < 2) {
					t.Errorf("answer %d: %d %q %v", n, status, body, err)
				}
			}
			s.Heal()
			if status, body, err := ask(t, s, user(check.Token("b")+" [do:fail="+kind+",times=1]")); failed(status, body, err) {
				t.Errorf("healed: %d %q %v", status, body, err)
			}
		})
	}
}

func TestSplitJoins(t *testing.T) {
	for n := range 6 {
		if pieces := split("one two three", max(1, n)); strings.Join(pieces, "") != "one two three" || len(pieces) > max(1, n) {
			t.Errorf("%d: %q", n, pieces)
		}
	}
}
