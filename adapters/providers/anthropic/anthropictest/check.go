package anthropictest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// The request as a strict backend reads it: members that it does not know are refused.
type (
	body struct {
		Model        string        `json:"model"`
		MaxTokens    int           `json:"max_tokens"`
		System       []content     `json:"system"`
		Messages     []turn        `json:"messages"`
		Tools        []toolSpec    `json:"tools"`
		Temperature  *float64      `json:"temperature"`
		Thinking     *thinkingSpec `json:"thinking"`
		OutputConfig *struct {
			Effort string `json:"effort"`
		} `json:"output_config"`
		Stream bool `json:"stream"`
	}
	thinkingSpec struct {
		Type         string `json:"type"`
		BudgetTokens int    `json:"budget_tokens"`
	}
	toolSpec struct {
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl json.RawMessage `json:"cache_control"`
	}
	turn struct {
		Role    string    `json:"role"`
		Content []content `json:"content"`
	}
	content struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  *string         `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
		Content   []content       `json:"content"`
		IsError   bool            `json:"is_error"`
		Source    *struct {
			Type      string `json:"type"`
			MediaType string `json:"media_type"`
			Data      string `json:"data"`
		} `json:"source"`
		CacheControl json.RawMessage `json:"cache_control"`
	}
)

func (c content) thinks() bool { return c.Type == "thinking" || c.Type == "redacted_thinking" }

var (
	callID   = wiretest.PlainName
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

// Check reads the body of a request as the strictest backend of the wire does, and returns what that would say to refuse
// it: user and assistant take turns and the user has the first and the last word; no message and no text is blank, no
// text holds U+0000; each call has an id of the right shape that is its own, and its result at the head of the very next
// message, in call order, of text alone if it is an error; thinking is unchanged, signed by the model that is asked, and never the end of a message; what
// is asked of the model fits together; images are whole and no larger than the backend takes.
func Check(raw []byte) error {
	var b body
	if err := wiretest.ReadStrict(raw, &b); err != nil {
		return err
	}
	return errors.Join(b.checkOptions(), b.checkTools(), checkBlocks("system", b.System, "text"), b.checkCache(), b.checkImages(), b.checkMessages())
}

func (b body) checkOptions() error {
	switch t := b.Thinking; {
	case b.Model == "":
		return errors.New("model: field required")
	case b.MaxTokens < 1:
		return errors.New("max_tokens: must be at least 1")
	case b.Temperature != nil && (*b.Temperature < 0 || *b.Temperature > 1):
		return errors.New("temperature: must be between 0 and 1")
	case b.OutputConfig != nil && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, b.OutputConfig.Effort):
		return errors.New("output_config.effort: unknown")
	case t == nil:
		return nil
	case b.Temperature != nil && *b.Temperature != 1:
		return errors.New("`temperature` may only be set to 1 when thinking is enabled")
	case t.Type == "adaptive" && t.BudgetTokens == 0:
		return nil
	case t.Type != "enabled":
		return errors.New("thinking.type: unknown, or adaptive with a budget")
	case t.BudgetTokens < 1024:
		return errors.New("thinking.enabled.budget_tokens: must be at least 1024")
	case t.BudgetTokens >= b.MaxTokens:
		return errors.New("`max_tokens` must be greater than `thinking.budget_tokens`")
	}
	return nil
}

func (b body) checkTools() error {
	seen := map[string]bool{}
	for i, t := range b.Tools {
		if !toolName.MatchString(t.Name) || seen[t.Name] {
			return fmt.Errorf("tools.%d.name: %q is malformed or not unique", i, t.Name)
		}
		if !wiretest.IsSchema(t.InputSchema) {
			return fmt.Errorf("tools.%d.input_schema.type: must be object", i)
		}
		seen[t.Name] = true
	}
	return nil
}

// checkCache counts the marks of prefixes to keep.
func (b body) checkCache() error {
	marks := 0
	count := func(mark json.RawMessage) {
		if len(mark) > 0 {
			marks++
		}
	}
	for _, t := range b.Tools {
		count(t.CacheControl)
	}
	for _, list := range append([][]content{b.System}, contents(b.Messages)...) {
		for _, c := range list {
			count(c.CacheControl)
			if len(c.CacheControl) > 0 && c.thinks() {
				return errors.New("cache_control: not allowed on thinking")
			}
		}
	}
	if marks > 4 {
		return fmt.Errorf("a maximum of 4 blocks with cache_control may be provided, found %d", marks)
	}
	return nil
}

func contents(turns []turn) [][]content {
	var all [][]content
	for _, t := range turns {
		all = append(all, t.Content)
	}
	return all
}

func (b body) checkMessages() error {
	if len(b.Messages) == 0 {
		return errors.New("messages: at least one message is required")
	}
	ids := map[string]bool{}
	var owed []string
	for i, m := range b.Messages {
		where := fmt.Sprintf("messages.%d", i)
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			return fmt.Errorf("%s: roles must alternate between user and assistant, beginning with the user", where)
		}
		if len(m.Content) == 0 {
			return fmt.Errorf("%s: all messages must have non-empty content", where)
		}
		err := error(nil)
		if m.Role == "user" {
			err = checkUser(where, m, owed)
			owed = nil
		} else {
			owed, err = b.checkAssistant(where, m, ids)
		}
		if err != nil {
			return err
		}
	}
	if b.Messages[len(b.Messages)-1].Role != "user" {
		return errors.New("messages: the conversation must end with a user message")
	}
	return b.checkBegunThinking()
}

// checkUser wants the results of owed at the head of m, in order, and nothing else that is a result.
func checkUser(where string, m turn, owed []string) error {
	for i, c := range m.Content {
		switch {
		case i < len(owed) && (c.Type != "tool_result" || c.ToolUseID != owed[i]):
			return fmt.Errorf("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s", where, owed[i])
		case i >= len(owed) && c.Type == "tool_result":
			return fmt.Errorf("%s.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s", where, i, c.ToolUseID)
		}
	}
	if len(m.Content) < len(owed) {
		return fmt.Errorf("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s", where, owed[len(m.Content)])
	}
	return checkBlocks(where, m.Content, "text", "image", "tool_result")
}

func (b body) checkAssistant(where string, m turn, ids map[string]bool) (owed []string, err error) {
	if m.Content[len(m.Content)-1].thinks() {
		return nil, fmt.Errorf("%s: the final block in an assistant message cannot be `thinking`", where)
	}
	for i, c := range m.Content {
		at := fmt.Sprintf("%s.content.%d", where, i)
		switch {
		case c.Type == "thinking" && (c.Thinking == nil || c.Signature != Sign(b.Model, *c.Thinking)),
			c.Type == "redacted_thinking" && c.Data != Sign(b.Model, "redacted"):
			return nil, fmt.Errorf("%s: Invalid `signature` in `%s` block", at, c.Type)
		case c.Type != "tool_use":
			continue
		case !callID.MatchString(c.ID):
			return nil, fmt.Errorf("%s.tool_use.id: string should match pattern '%s'", at, callID)
		case ids[c.ID]:
			return nil, fmt.Errorf("%s: `tool_use` ids must be unique", at)
		case !toolName.MatchString(c.Name):
			return nil, fmt.Errorf("%s.tool_use.name: string should match pattern '%s'", at, toolName)
		case !wiretest.IsObject(c.Input) || wiretest.HoldsNUL(c.Input):
			return nil, fmt.Errorf("%s.tool_use.input: input should be a valid dictionary", at)
		}
		ids[c.ID] = true
		owed = append(owed, c.ID)
	}
	return owed, checkBlocks(where, m.Content, "text", "thinking", "redacted_thinking", "tool_use")
}

// checkBegunThinking wants a turn that goes on with the results of calls to have begun with thinking, when a budget of it
// is asked for.
func (b body) checkBegunThinking() error {
	if b.Thinking == nil || b.Thinking.Type != "enabled" {
		return nil
	}
	first := -1
	for i := len(b.Messages) - 1; i > 0 && b.Messages[i].Content[0].Type == "tool_result"; i -= 2 {
		first = i - 1
	}
	if first < 0 || b.Messages[first].Content[0].thinks() {
		return nil
	}
	return fmt.Errorf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`", first, b.Messages[first].Content[0].Type)
}

// checkBlocks wants blocks of the types, and in each what its type demands.
func checkBlocks(where string, list []content, types ...string) error {
	for i, c := range list {
		at := fmt.Sprintf("%s.content.%d", where, i)
		switch {
		case !slices.Contains(types, c.Type):
			return fmt.Errorf("%s.type: %q is not allowed here", at, c.Type)
		case c.Type == "text" && strings.TrimSpace(c.Text) == "":
			return fmt.Errorf("%s: text content blocks must contain non-whitespace text", at)
		case strings.Contains(c.Text, "\x00"):
			return fmt.Errorf("%s: text holds U+0000", at)
		case c.Type == "image" && !c.shows():
			return fmt.Errorf("%s.image.source: media type or data is invalid", at)
		case c.Type == "tool_result" && len(c.Content) == 0:
			return fmt.Errorf("%s: the result is empty", at)
		case c.IsError && slices.ContainsFunc(c.Content, func(inner content) bool { return inner.Type != "text" }):
			return fmt.Errorf("%s: all content must be type 'text' if 'is_error' is true", at)
		}
		if err := checkBlocks(at, c.Content, "text", "image"); err != nil {
			return err
		}
	}
	return nil
}
