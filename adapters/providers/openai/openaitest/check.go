package openaitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// The request as a strict backend reads it: members that it does not know are refused.
type (
	body struct {
		Model               string     `json:"model"`
		Messages            []message  `json:"messages"`
		Tools               []toolSpec `json:"tools"`
		Temperature         *float64   `json:"temperature"`
		MaxTokens           *int       `json:"max_tokens"`
		MaxCompletionTokens *int       `json:"max_completion_tokens"`
		ReasoningEffort     *string    `json:"reasoning_effort"`
		Stream              bool       `json:"stream"`
		StreamOptions       *struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	toolSpec struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	message struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCalls  []toolCall      `json:"tool_calls"`
		ToolCallID string          `json:"tool_call_id"`
	}
	toolCall struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	part struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL *struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
)

var (
	callID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)
	effort = regexp.MustCompile(`^[a-z]+$`) // which levels there are differs from model to model
)

// Check reads the body of a request as the strictest backend of the wire does, and returns what that would say to refuse
// it: the instructions come first and once; user and assistant take turns and the user has the first word, and the last one
// but for a tool; no content is blank, and nothing holds U+0000; each call has an id of the right shape that is its own,
// and the results of all calls of an answer stand right behind it, in call order; only the user shows images; what is
// asked of the model fits together.
func Check(raw []byte) error {
	var b body
	if err := wiretest.ReadStrict(raw, &b); err != nil {
		return err
	}
	if wiretest.HoldsNUL(raw) {
		return errors.New("the request body holds U+0000")
	}
	return errors.Join(b.checkOptions(), b.checkTools(), b.checkMessages())
}

func (b body) checkOptions() error {
	switch limited := b.MaxTokens != nil && *b.MaxTokens < 1 || b.MaxCompletionTokens != nil && *b.MaxCompletionTokens < 1; {
	case b.Model == "":
		return errors.New("you must provide a model parameter")
	case b.Temperature != nil && (*b.Temperature < 0 || *b.Temperature > 2):
		return errors.New("temperature: must be between 0 and 2")
	case limited:
		return errors.New("max_tokens: must be at least 1")
	case b.MaxTokens != nil && b.MaxCompletionTokens != nil:
		return errors.New("max_tokens and max_completion_tokens cannot both be set")
	case b.ReasoningEffort != nil && !effort.MatchString(*b.ReasoningEffort):
		return errors.New("reasoning_effort: no level")
	case b.StreamOptions != nil && !b.Stream:
		return errors.New("stream_options: only allowed when 'stream' is enabled")
	}
	return nil
}

// The bounds of tools that OpenAI has.
const (
	maxTools       = 128
	maxDescription = 1024 // characters
)

func (b body) checkTools() error {
	if n := len(b.Tools); n > maxTools {
		return fmt.Errorf("invalid 'tools': array too long. Expected an array with maximum length %d, but got an array with length %d instead", maxTools, n)
	}
	seen := map[string]bool{}
	for i, t := range b.Tools {
		f := t.Function
		switch {
		case t.Type != "function":
			return fmt.Errorf("tools[%d].type: unknown", i)
		case !wiretest.PlainName.MatchString(f.Name) || seen[f.Name]:
			return fmt.Errorf("tools[%d].function.name: %q is malformed or not unique", i, f.Name)
		case utf8.RuneCountInString(f.Description) > maxDescription:
			return fmt.Errorf("invalid 'tools[%d].function.description': string too long. Expected a string with maximum length %d, but got a string with length %d instead",
				i, maxDescription, utf8.RuneCountInString(f.Description))
		case !wiretest.IsSchema(f.Parameters):
			return fmt.Errorf("tools[%d].function.parameters: schema must be of type \"object\"", i)
		}
		seen[f.Name] = true
	}
	return nil
}

func (b body) checkMessages() error {
	c := reader{last: "assistant", seen: map[string]bool{}}
	for i, m := range b.Messages {
		read := c.take
		if m.Role == "system" && i == 0 {
			read = message.checkSystem
		}
		if err := read(m); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	switch {
	case len(c.owed) > 0:
		return c.unanswered()
	case c.last == "assistant":
		return errors.New("messages: the last one must be of the user or a tool")
	}
	return nil
}

// reader reads messages in order.
type reader struct {
	last string          // the role before, at the beginning as if an answer stood there
	seen map[string]bool // ids of calls
	owed []string        // calls without a result, in call order
}

func (c *reader) unanswered() error {
	return fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id', there is none for %s", c.owed[0])
}

func (c *reader) take(m message) error {
	switch {
	case m.Role == "tool":
		return c.result(m)
	case m.Role != "user" && m.Role != "assistant":
		return fmt.Errorf("role: %q is unknown, or not allowed here", m.Role)
	case len(c.owed) > 0:
		return c.unanswered()
	case m.Role == c.last:
		return errors.New("role: conversation roles must alternate user/assistant/user/assistant/…")
	case m.ToolCallID != "":
		return errors.New("tool_call_id: only of tool messages")
	}
	c.last = m.Role
	if m.Role == "user" {
		return m.checkUser()
	}
	return c.answer(m)
}

// result takes a tool message, which the next call that is owed has to want.
func (c *reader) result(m message) error {
	switch {
	case len(c.owed) == 0:
		return errors.New("messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
	case m.ToolCallID != c.owed[0]:
		return fmt.Errorf("tool_call_id: %q where the result of %s is due", m.ToolCallID, c.owed[0])
	case m.ToolCalls != nil:
		return errors.New("tool_calls: only of assistant messages")
	}
	c.last, c.owed = m.Role, c.owed[1:]
	return m.checkText()
}

func (c *reader) answer(m message) error {
	for i, k := range m.ToolCalls {
		at := fmt.Sprintf("tool_calls[%d]", i)
		switch {
		case k.Type != "function":
			return fmt.Errorf("%s.type: unknown", at)
		case !callID.MatchString(k.ID):
			return fmt.Errorf("%s.id: %q is malformed, or has more than 40 characters", at, k.ID)
		case c.seen[k.ID]:
			return fmt.Errorf("%s.id: %q is not unique", at, k.ID)
		case !wiretest.PlainName.MatchString(k.Function.Name):
			return fmt.Errorf("%s.function.name: %q is malformed", at, k.Function.Name)
		case !wiretest.IsObject([]byte(k.Function.Arguments)) || wiretest.HoldsNUL([]byte(k.Function.Arguments)):
			return fmt.Errorf("%s.function.arguments: no object, or with U+0000", at)
		}
		c.seen[k.ID] = true
		c.owed = append(c.owed, k.ID)
	}
	switch {
	case m.ToolCalls != nil && len(m.ToolCalls) == 0:
		return errors.New("tool_calls: empty array")
	case len(m.ToolCalls) > 0 && string(m.Content) == "null":
		return nil
	}
	return m.checkText()
}

func (m message) checkSystem() error {
	if m.ToolCalls != nil || m.ToolCallID != "" {
		return errors.New("a system message neither calls nor answers")
	}
	return m.checkText()
}

// checkText wants content that is a text.
func (m message) checkText() error {
	var text *string
	if json.Unmarshal(m.Content, &text) != nil || text == nil || wiretest.IsUnsaid(*text) {
		return errors.New("content: must be a text that is not blank")
	}
	return nil
}

// checkUser wants content that is a text, or texts and images.
func (m message) checkUser() error {
	if m.ToolCalls != nil {
		return errors.New("tool_calls: only of assistant messages")
	}
	var parts []part
	if wiretest.ReadStrict(m.Content, &parts) != nil {
		return m.checkText()
	}
	if len(parts) == 0 {
		return errors.New("content: empty")
	}
	bad := slices.IndexFunc(parts, func(p part) bool { return !p.good() })
	if bad >= 0 {
		return fmt.Errorf("content[%d]: neither a text that is not blank nor an image that can be shown", bad)
	}
	return nil
}

func (p part) good() bool {
	switch p.Type {
	case "text":
		return p.ImageURL == nil && !wiretest.IsUnsaid(p.Text)
	case "image_url":
		return p.Text == "" && p.ImageURL != nil && wiretest.IsImageURL(p.ImageURL.URL)
	}
	return false
}
