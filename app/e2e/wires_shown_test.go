package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the requests of each wire show, the same for all: one line per message, its parts joined, thoughts in <>. The
// backends have read them as the strictest one would.

// transcript joins neighbouring parts of one role to a line.
type transcript struct {
	lines []string
	role  string
}

// add adds a part. Parts of the user are paragraphs; a result is a line of its own.
func (s *transcript) add(role, part string) {
	switch {
	case role != s.role || role == "tool":
		s.lines = append(s.lines, role+": "+part)
	case role == "user":
		s.lines[len(s.lines)-1] += "\n\n" + part
	default:
		s.lines[len(s.lines)-1] += " " + part
	}
	s.role = role
}

// parse decodes a body.
func parse[T any](t *testing.T, body []byte) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(body, &v))
	return v
}

func chatLines(t *testing.T, body []byte) []string {
	return shown(parse[struct{ Messages []wireMessage }](t, body).Messages)
}

func messagesLines(t *testing.T, body []byte) []string {
	type content struct {
		Type, Text, Thinking, Name string
		Input                      json.RawMessage
		Content                    []struct{ Text string }
	}
	r := parse[struct {
		System   []content
		Messages []struct {
			Role    string
			Content []content
		}
	}](t, body)
	var s transcript
	for _, c := range r.System {
		s.add("system", c.Text)
	}
	for _, m := range r.Messages {
		for _, c := range m.Content {
			switch c.Type {
			case "text":
				s.add(m.Role, c.Text)
			case "thinking":
				s.add(m.Role, "<"+c.Thinking+">")
			case "tool_use":
				s.add(m.Role, c.Name+string(c.Input))
			case "tool_result":
				var texts []string
				for _, inner := range c.Content {
					texts = append(texts, inner.Text)
				}
				s.add("tool", strings.Join(texts, "\n"))
			}
		}
	}
	return s.lines
}

func generateLines(t *testing.T, body []byte) []string {
	type turn struct {
		Role  string
		Parts []struct {
			Text         string
			Thought      bool
			FunctionCall *struct {
				Name string
				Args json.RawMessage
			}
			FunctionResponse *struct {
				Response struct{ Output, Error string }
			}
		}
	}
	r := parse[struct {
		SystemInstruction turn
		Contents          []turn
	}](t, body)
	r.SystemInstruction.Role = "system"
	var s transcript
	for _, c := range append([]turn{r.SystemInstruction}, r.Contents...) {
		role := strings.Replace(c.Role, "model", "assistant", 1)
		for _, p := range c.Parts {
			switch {
			case p.FunctionCall != nil:
				s.add(role, p.FunctionCall.Name+string(p.FunctionCall.Args))
			case p.FunctionResponse != nil:
				s.add("tool", p.FunctionResponse.Response.Output+p.FunctionResponse.Response.Error)
			case p.Thought:
				s.add(role, "<"+p.Text+">")
			default:
				s.add(role, p.Text)
			}
		}
	}
	return s.lines
}

func responsesLines(t *testing.T, body []byte) []string {
	type text struct{ Text string }
	r := parse[struct {
		Instructions string
		Input        []struct {
			Type, Role, Name, Arguments, Output string
			Content, Summary                    []text
		}
	}](t, body)
	var s transcript
	if r.Instructions != "" {
		s.add("system", r.Instructions)
	}
	for _, i := range r.Input {
		switch i.Type {
		case "message":
			for _, c := range i.Content {
				s.add(i.Role, c.Text)
			}
		case "reasoning":
			for _, c := range i.Summary {
				s.add("assistant", "<"+c.Text+">")
			}
		case "function_call":
			s.add("assistant", i.Name+i.Arguments)
		case "function_call_output":
			s.add("tool", i.Output)
		}
	}
	return s.lines
}
