package responsestest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// The request as a strict backend reads it: members that it does not know are refused.
type (
	request struct {
		Model           string      `json:"model"`
		Instructions    *string     `json:"instructions"`
		Input           []inputItem `json:"input"`
		Tools           []toolSpec  `json:"tools"`
		Temperature     *float64    `json:"temperature"`
		MaxOutputTokens *int        `json:"max_output_tokens"`
		Reasoning       *struct {
			Effort  string  `json:"effort"`
			Summary *string `json:"summary"`
		} `json:"reasoning"`
		Include []string `json:"include"`
		Store   *bool    `json:"store"`
		Stream  bool     `json:"stream"`
	}
	toolSpec struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	}
	inputItem struct {
		Type             string          `json:"type"`
		ID               string          `json:"id"`
		Role             string          `json:"role"`
		Content          []content       `json:"content"`
		Summary          []content       `json:"summary"`
		EncryptedContent string          `json:"encrypted_content"`
		CallID           string          `json:"call_id"`
		Name             string          `json:"name"`
		Arguments        string          `json:"arguments"`
		Output           json.RawMessage `json:"output"`
	}
	content struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Detail   string `json:"detail"`
		ImageURL string `json:"image_url"`
	}
)

// Check reads the body of a request as the strictest backend of the wire does, and returns what that would say to refuse
// it: nothing is stored; no content is blank, and no text holds U+0000; each call has an id of the right shape that is
// its own, and the outputs of all calls of an answer stand right behind it, in call order; reasoning is unchanged, of the
// model that is asked, and has an item of its answer behind it; what is asked of the model fits together.
func Check(raw []byte) error {
	var r request
	if err := wiretest.ReadStrict(raw, &r); err != nil {
		return err
	}
	return errors.Join(r.checkOptions(), r.checkTools(), r.checkInput())
}

func (r request) checkOptions() error {
	switch {
	case r.Model == "":
		return errors.New("missing required parameter: 'model'")
	case r.Store == nil || *r.Store:
		return errors.New("store: nothing may be left at the backend")
	case r.Instructions != nil && wiretest.IsUnsaid(*r.Instructions):
		return errors.New("instructions: blank, or with U+0000")
	case r.MaxOutputTokens != nil && *r.MaxOutputTokens < 16:
		return errors.New("max_output_tokens: expected a value >= 16")
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 2):
		return errors.New("temperature: must be between 0 and 2")
	case slices.ContainsFunc(r.Include, func(s string) bool { return s != "reasoning.encrypted_content" }):
		return errors.New("include: unknown value")
	case r.Reasoning == nil:
		return nil
	case !slices.Contains([]string{"none", "minimal", "low", "medium", "high", "xhigh"}, r.Reasoning.Effort):
		return errors.New("reasoning.effort: unknown")
	case r.Reasoning.Summary != nil && *r.Reasoning.Summary != "auto":
		return errors.New("reasoning.summary: unknown")
	case r.Temperature != nil && r.Reasoning.Effort != "none":
		return errors.New("unsupported parameter: 'temperature' is not supported with this model")
	}
	return nil
}

func (r request) checkTools() error {
	seen := map[string]bool{}
	for i, t := range r.Tools {
		switch {
		case t.Type != "function":
			return fmt.Errorf("tools[%d].type: unknown", i)
		case !wiretest.PlainName.MatchString(t.Name) || seen[t.Name]:
			return fmt.Errorf("tools[%d].name: %q is malformed or not unique", i, t.Name)
		case !wiretest.IsSchema(t.Parameters):
			return fmt.Errorf("tools[%d].parameters: schema must be of type \"object\"", i)
		case t.Strict == nil || *t.Strict:
			return fmt.Errorf("tools[%d].strict: without it the schema may be of a subset only", i)
		}
		seen[t.Name] = true
	}
	return nil
}

func (r request) checkInput() error {
	if len(r.Input) == 0 {
		return errors.New("missing required parameter: 'input'")
	}
	c := reader{model: r.Model, seen: map[string]bool{}}
	for i, it := range r.Input {
		at := fmt.Sprintf("input[%d]", i)
		if err := c.take(it); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if it.Type == "reasoning" && (i+1 == len(r.Input) || !r.Input[i+1].follows()) {
			return fmt.Errorf("%s: item %q of type 'reasoning' was provided without its required following item", at, it.ID)
		}
	}
	return c.answered()
}

// follows reports whether it may stand behind reasoning: it is of the same answer.
func (it inputItem) follows() bool {
	return it.Type == "reasoning" || it.Type == "function_call" || it.Type == "message" && it.Role == "assistant"
}

// reader reads the items of an input in order.
type reader struct {
	model     string
	seen      map[string]bool // ids of calls
	open      []string        // calls without an output
	answering bool            // the last item was an output
}

func (c *reader) answered() error {
	if len(c.open) > 0 {
		return fmt.Errorf("no tool output found for function call %s", c.open[0])
	}
	return nil
}

func (c *reader) take(it inputItem) error {
	if it.Role == "user" || c.answering && it.Type != "function_call_output" {
		if err := c.answered(); err != nil {
			return err
		}
	}
	c.answering = it.Type == "function_call_output"
	switch it.Type {
	case "message":
		return it.checkMessage()
	case "reasoning":
		return it.checkReasoning(c.model)
	case "function_call":
		if c.seen[it.CallID] {
			return fmt.Errorf("call_id: %q is not unique", it.CallID)
		}
		c.seen[it.CallID] = true
		c.open = append(c.open, it.CallID)
		return it.checkCall()
	case "function_call_output":
		if len(c.open) == 0 || c.open[0] != it.CallID {
			return fmt.Errorf("no tool call found for function call output with call_id %q", it.CallID)
		}
		c.open = c.open[1:]
		return it.checkOutput()
	}
	return fmt.Errorf("type: %q is unknown", it.Type)
}

func (it inputItem) checkMessage() error {
	switch {
	case it.ID != "":
		return fmt.Errorf("item with id %q not found: items are not persisted when `store` is set to false", it.ID)
	case it.Role == "user":
		return checkContent(it.Content, "input_text", "input_image")
	case it.Role == "assistant":
		return checkContent(it.Content, "output_text")
	}
	return fmt.Errorf("role: %q is unknown", it.Role)
}

func (it inputItem) checkReasoning(model string) error {
	var texts []string
	for _, c := range it.Summary {
		if c.Type != "summary_text" {
			return fmt.Errorf("summary: %q is not allowed here", c.Type)
		}
		texts = append(texts, c.Text)
	}
	switch {
	case it.Summary == nil:
		return errors.New("missing required parameter: 'summary'")
	case it.EncryptedContent != Sign(model, it.ID, texts...):
		return fmt.Errorf("the encrypted content for item %s could not be verified", it.ID)
	}
	return nil
}

func (it inputItem) checkCall() error {
	switch {
	case it.ID != "":
		return errors.New("item of type 'function_call' was provided without its required 'reasoning' item")
	case !wiretest.PlainName.MatchString(it.CallID):
		return fmt.Errorf("call_id: %q is malformed", it.CallID)
	case !wiretest.PlainName.MatchString(it.Name):
		return fmt.Errorf("name: %q is malformed", it.Name)
	case !wiretest.IsObject([]byte(it.Arguments)) || wiretest.HoldsNUL([]byte(it.Arguments)):
		return errors.New("arguments: no object")
	}
	return nil
}

func (it inputItem) checkOutput() error {
	var text string
	if json.Unmarshal(it.Output, &text) == nil {
		if wiretest.IsUnsaid(text) {
			return errors.New("output: blank, or with U+0000")
		}
		return nil
	}
	var parts []content
	if err := json.Unmarshal(it.Output, &parts); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return checkContent(parts, "input_text", "input_image")
}

func checkContent(list []content, types ...string) error {
	if len(list) == 0 {
		return errors.New("the content is empty")
	}
	for i, c := range list {
		switch {
		case !slices.Contains(types, c.Type):
			return fmt.Errorf("content[%d].type: %q is not allowed here", i, c.Type)
		case c.Type == "input_image" && !wiretest.IsImageURL(c.ImageURL):
			return fmt.Errorf("content[%d].image_url: type or data is invalid", i)
		case c.Type != "input_image" && wiretest.IsUnsaid(c.Text):
			return fmt.Errorf("content[%d].text: blank, or with U+0000", i)
		}
	}
	return nil
}
