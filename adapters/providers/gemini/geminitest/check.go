package geminitest

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
		SystemInstruction *turn  `json:"systemInstruction"`
		Contents          []turn `json:"contents"`
		Tools             []struct {
			FunctionDeclarations []declaration `json:"functionDeclarations"`
		} `json:"tools"`
		GenerationConfig struct {
			Temperature     *float64 `json:"temperature"`
			MaxOutputTokens *int     `json:"maxOutputTokens"`
			ThinkingConfig  *struct {
				IncludeThoughts bool   `json:"includeThoughts"`
				ThinkingLevel   string `json:"thinkingLevel"`
				ThinkingBudget  *int   `json:"thinkingBudget"`
			} `json:"thinkingConfig"`
		} `json:"generationConfig"`
	}
	declaration struct {
		Name                 string          `json:"name"`
		Description          string          `json:"description"`
		ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
	}
	turn struct {
		Role  string    `json:"role"`
		Parts []content `json:"parts"`
	}
	content struct {
		Text             *string       `json:"text"`
		Thought          bool          `json:"thought"`
		ThoughtSignature string        `json:"thoughtSignature"`
		FunctionCall     *functionCall `json:"functionCall"`
		FunctionResponse *struct {
			ID       string          `json:"id"`
			Name     string          `json:"name"`
			Response json.RawMessage `json:"response"`
		} `json:"functionResponse"`
		InlineData *struct {
			MimeType string `json:"mimeType"`
			Data     string `json:"data"`
		} `json:"inlineData"`
	}
	functionCall struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	}
)

var (
	functionName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)
	thirdOrLater = regexp.MustCompile(`^gemini-([3-9]|\d\d)`)
)

// NoSignature is what a call without a signature may carry in its place.
const NoSignature = "skip_thought_signature_validator"

// Check reads the body of a request to model as the strictest backend of the wire does, and returns what that would say to
// refuse it: user and model take turns and the user has the first and the last word; no turn is empty, no part is blank
// that is not signed, nothing holds U+0000; the results of a turn's calls are the very next one, in order, with the same
// names and ids and nothing beside them, and only behind such a turn may the user have another; signatures are those that model gave to the unchanged part, and models from
// Gemini 3 on want one at the first call of each turn.
func Check(model string, raw []byte) error {
	var b body
	if err := wiretest.ReadStrict(raw, &b); err != nil {
		return err
	}
	if wiretest.HoldsNUL(raw) {
		return errors.New("a text holds U+0000")
	}
	return errors.Join(b.checkConfig(model), b.checkTools(), b.checkSystem(), b.checkContents(model))
}

func (b body) checkConfig(model string) error {
	c := b.GenerationConfig
	t := c.ThinkingConfig
	switch third := thirdOrLater.MatchString(model); {
	case c.Temperature != nil && (*c.Temperature < 0 || *c.Temperature > 2):
		return errors.New("temperature must be in the range [0.0, 2.0]")
	case c.MaxOutputTokens != nil && *c.MaxOutputTokens < 1:
		return errors.New("max_output_tokens must be positive")
	case t == nil:
		return nil
	case t.ThinkingLevel != "" && t.ThinkingBudget != nil:
		return errors.New("thinking_level and thinking_budget cannot be set both")
	case t.ThinkingLevel != "" && !third:
		return errors.New("thinking level is not supported for this model")
	case t.ThinkingLevel != "" && !slices.Contains([]string{"MINIMAL", "LOW", "MEDIUM", "HIGH"}, t.ThinkingLevel):
		return fmt.Errorf("invalid value at thinking_level: %q", t.ThinkingLevel)
	case t.ThinkingBudget != nil && (*t.ThinkingBudget < 0 || *t.ThinkingBudget > 32768):
		return fmt.Errorf("the thinking budget %d is invalid", *t.ThinkingBudget)
	}
	return nil
}

func (b body) checkTools() error {
	seen := map[string]bool{}
	for i, list := range b.Tools {
		if len(list.FunctionDeclarations) == 0 {
			return fmt.Errorf("tools[%d]: empty", i)
		}
		if len(list.FunctionDeclarations) > 512 {
			return fmt.Errorf("tools[%d].function_declarations: [FIELD_INVALID] At most 512 function declarations can be specified", i)
		}
		for j, f := range list.FunctionDeclarations {
			at := fmt.Sprintf("tools[%d].function_declarations[%d]", i, j)
			switch {
			case !functionName.MatchString(f.Name):
				return fmt.Errorf("%s.name: invalid function name %q", at, f.Name)
			case seen[f.Name]:
				return fmt.Errorf("%s.name: duplicate function declaration %q", at, f.Name)
			case len(f.ParametersJSONSchema) == 0:
			case !wiretest.IsSchema(f.ParametersJSONSchema):
				return fmt.Errorf("%s.parameters_json_schema: must be of an object", at)
			}
			seen[f.Name] = true
		}
	}
	return nil
}

func (b body) checkSystem() error {
	if b.SystemInstruction == nil {
		return nil
	}
	if len(b.SystemInstruction.Parts) == 0 {
		return errors.New("system_instruction: no parts")
	}
	for _, p := range b.SystemInstruction.Parts {
		if p.Text == nil || strings.TrimSpace(*p.Text) == "" || p.kinds() != 1 || p.ThoughtSignature != "" {
			return errors.New("system_instruction: only text")
		}
	}
	return nil
}

func (b body) checkContents(model string) error {
	if len(b.Contents) == 0 {
		return errors.New("contents is not specified")
	}
	var owed []functionCall
	before := turn{Role: "model"}
	for i, t := range b.Contents {
		at := fmt.Sprintf("contents[%d]", i)
		if !t.follows(before) {
			return fmt.Errorf("%s: the roles must alternate between user and model, beginning with the user", at)
		}
		before = t
		if len(t.Parts) == 0 {
			return fmt.Errorf("%s: contents.parts must not be empty", at)
		}
		if err := checkParts(at, model, t); err != nil {
			return err
		}
		if t.Role == "user" {
			if err := checkResponses(at, t, owed); err != nil {
				return err
			}
			owed = nil
			continue
		}
		var err error
		if owed, err = checkCalls(at, model, t); err != nil {
			return err
		}
	}
	if b.Contents[len(b.Contents)-1].Role != "user" {
		return errors.New("contents: the request must end with a user turn")
	}
	return nil
}

// follows reports whether t may stand behind before: the other has the word, or the user goes on behind results.
func (t turn) follows(before turn) bool {
	switch t.Role {
	case "model":
		return before.Role == "user"
	case "user":
		return before.Role == "model" || before.Parts[0].FunctionResponse != nil
	}
	return false
}

// checkResponses wants t to be the responses to owed, in order, and no other part beside them.
func checkResponses(at string, t turn, owed []functionCall) error {
	for i, p := range t.Parts {
		r := p.FunctionResponse
		switch {
		case len(owed) == 0 && r == nil:
			continue
		case i >= len(owed) && r == nil:
			return fmt.Errorf("%s.parts[%d]: requests ending with a model turn are not supported: other parts stand behind function responses", at, i)
		case i >= len(owed) || r == nil:
			return fmt.Errorf("%s: please ensure that the number of function response parts is equal to the number of function call parts of the function call turn", at)
		case r.Name != owed[i].Name || r.ID != owed[i].ID:
			return fmt.Errorf("%s.parts[%d]: the response to %s %q has the name %s and the id %q", at, i, owed[i].Name, owed[i].ID, r.Name, r.ID)
		case !wiretest.IsObject(r.Response):
			return fmt.Errorf("%s.parts[%d].function_response.response: must be an object", at, i)
		}
	}
	if len(t.Parts) < len(owed) {
		return fmt.Errorf("%s: please ensure that every function call has its response", at)
	}
	return nil
}

func checkCalls(at, model string, t turn) (owed []functionCall, err error) {
	ids := map[string]bool{}
	for i, p := range t.Parts {
		f := p.FunctionCall
		switch {
		case f == nil:
			continue
		case !functionName.MatchString(f.Name):
			return nil, fmt.Errorf("%s.parts[%d].function_call.name: %q is invalid", at, i, f.Name)
		case !wiretest.IsObject(f.Args):
			return nil, fmt.Errorf("%s.parts[%d].function_call.args: must be an object", at, i)
		case f.ID != "" && ids[f.ID]:
			return nil, fmt.Errorf("%s.parts[%d].function_call.id: %q is not unique", at, i, f.ID)
		case len(owed) == 0 && p.ThoughtSignature == "" && thirdOrLater.MatchString(model):
			return nil, fmt.Errorf("function call is missing a thought_signature in functionCall parts. Additional data, function call `%s`, position %d", f.Name, i)
		}
		ids[f.ID] = true
		owed = append(owed, *f)
	}
	return owed, nil
}

// kinds returns how many kinds of content c has at once.
func (c content) kinds() int {
	n := 0
	for _, has := range []bool{c.Text != nil, c.FunctionCall != nil, c.FunctionResponse != nil, c.InlineData != nil} {
		if has {
			n++
		}
	}
	return n
}

// checkParts wants in each part of t exactly one kind of content that its role may hold, and signatures intact.
func checkParts(at, model string, t turn) error {
	for i, p := range t.Parts {
		at := fmt.Sprintf("%s.parts[%d]", at, i)
		user := t.Role == "user"
		switch {
		case p.kinds() != 1:
			return fmt.Errorf("%s.data: required oneof field 'data' must have one initialized field", at)
		case user && (p.FunctionCall != nil || p.Thought || p.ThoughtSignature != "") || !user && p.FunctionResponse != nil:
			return fmt.Errorf("%s: not allowed in a turn of the %s", at, t.Role)
		case p.Text != nil && strings.TrimSpace(*p.Text) == "" && p.ThoughtSignature == "":
			return fmt.Errorf("%s.text: must not be blank", at)
		case p.Thought && (p.Text == nil || p.ThoughtSignature == ""):
			return fmt.Errorf("%s.thought: only for signed text", at)
		case p.InlineData != nil && !p.shows():
			return fmt.Errorf("%s.inline_data: media type or data is invalid", at)
		case p.ThoughtSignature == NoSignature && p.FunctionCall != nil, p.ThoughtSignature == "":
		case p.ThoughtSignature != Sign(model, p.proved()):
			return fmt.Errorf("%s: corrupted thought signature", at)
		}
	}
	return nil
}

// shows reports whether c is an image that can be shown.
func (c content) shows() bool {
	return wiretest.IsImage(c.InlineData.MimeType, c.InlineData.Data, "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
}
