package differential

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"

	keelanthropic "github.com/keel-agent/keel/adapters/providers/anthropic"
	keelgemini "github.com/keel-agent/keel/adapters/providers/gemini"
	keelopenai "github.com/keel-agent/keel/adapters/providers/openai"
	keelresponses "github.com/keel-agent/keel/adapters/providers/openai/responses"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const (
	nowhere = "http://backend.invalid"
	apiKey  = "key"
)

var errFailed = errors.New("the SDK reports that the answer failed")

// stopReasons are the SDKs' ends of answers as this project calls them.
var stopReasons = map[string]domain.StopReason{
	"stop": domain.StopEndTurn, "end_turn": domain.StopEndTurn, "stop_sequence": domain.StopEndTurn, "STOP": domain.StopEndTurn, "completed": domain.StopEndTurn,
	"tool_calls": domain.StopToolUse, "function_call": domain.StopToolUse, "tool_use": domain.StopToolUse,
	"length": domain.StopLength, "max_tokens": domain.StopLength, "MAX_TOKENS": domain.StopLength, "max_output_tokens": domain.StopLength,
	"content_filter": domain.StopRefusal, "refusal": domain.StopRefusal, "SAFETY": domain.StopRefusal,
}

// end sets the stop reason. Wires that have no reason for calls end with a plain one.
func (a *answer) end(reason string) {
	a.Stop = reason
	if known, ok := stopReasons[reason]; ok {
		a.Stop = string(known)
	}
	if a.Stop == string(domain.StopEndTurn) && len(a.Calls) > 0 {
		a.Stop = string(domain.StopToolUse)
	}
}

func openChat(client *http.Client) (ports.Provider, error) {
	return keelopenai.New(keelopenai.Config{BaseURL: nowhere, Model: "m", HTTPClient: client})
}

func openAIClient(client *http.Client) openai.Client {
	return openai.NewClient(openaioption.WithBaseURL(nowhere), openaioption.WithAPIKey(apiKey), openaioption.WithHTTPClient(client), openaioption.WithMaxRetries(0))
}

func askChat(t *testing.T, client *http.Client) (a answer, err error) {
	sdk := openAIClient(client)
	stream := sdk.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}})
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			return a, errors.New("the accumulator refuses a chunk")
		}
	}
	if stream.Err() != nil || len(whole.Choices) == 0 {
		return a, errors.Join(errFailed, stream.Err())
	}
	choice := whole.Choices[0]
	a.Text = choice.Message.Content + choice.Message.Refusal
	for _, c := range choice.Message.ToolCalls {
		a.call(c.Function.Name, c.Function.Arguments)
	}
	a.end(string(choice.FinishReason))
	if choice.Message.Refusal != "" {
		a.Stop = string(domain.StopRefusal)
	}
	u := whole.Usage
	a.Usage = &domain.Usage{
		Input: u.PromptTokens, Output: u.CompletionTokens, CacheRead: u.PromptTokensDetails.CachedTokens, Reasoning: u.CompletionTokensDetails.ReasoningTokens,
	}
	return a, nil
}

func openResponses(client *http.Client) (ports.Provider, error) {
	return keelresponses.New(keelopenai.Config{BaseURL: nowhere, Model: "m", HTTPClient: client})
}

func askResponses(t *testing.T, client *http.Client) (a answer, err error) {
	sdk := openAIClient(client)
	stream := sdk.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}})
	var r responses.Response
	for stream.Next() {
		switch e := stream.Current(); e.Type {
		case "response.completed", "response.incomplete", "response.failed":
			r = e.Response
		case "error":
			return a, errFailed
		}
	}
	if stream.Err() != nil || r.Status == "failed" {
		return a, errors.Join(errFailed, stream.Err())
	}
	refused := false
	for _, item := range r.Output {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				a.Text += part.Text + part.Refusal
				refused = refused || part.Refusal != ""
			}
		case "function_call":
			a.call(item.Name, item.AsFunctionCall().Arguments)
		}
	}
	a.end(string(r.Status))
	if r.Status == "incomplete" {
		a.end(string(r.IncompleteDetails.Reason))
	}
	if refused {
		a.Stop = string(domain.StopRefusal)
	}
	a.Usage = &domain.Usage{
		Input: r.Usage.InputTokens, Output: r.Usage.OutputTokens, CacheRead: r.Usage.InputTokensDetails.CachedTokens,
		Reasoning: r.Usage.OutputTokensDetails.ReasoningTokens,
	}
	return a, nil
}

func openAnthropic(client *http.Client) (ports.Provider, error) {
	return keelanthropic.New(keelanthropic.Config{BaseURL: nowhere, Model: "m", HTTPClient: client})
}

func askAnthropic(t *testing.T, client *http.Client) (a answer, err error) {
	sdk := anthropic.NewClient(
		anthropicoption.WithBaseURL(nowhere), anthropicoption.WithAPIKey(apiKey), anthropicoption.WithHTTPClient(client), anthropicoption.WithMaxRetries(0))
	stream := sdk.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{
		Model: "m", MaxTokens: 1000, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
	})
	var m anthropic.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			return a, err
		}
	}
	if stream.Err() != nil {
		return a, stream.Err()
	}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			a.Text += b.Text
		case "tool_use":
			a.call(b.Name, string(b.Input))
		}
	}
	a.end(string(m.StopReason))
	u := m.Usage
	a.Usage = &domain.Usage{
		Input: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, Output: u.OutputTokens,
		CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens, Reasoning: u.OutputTokensDetails.ThinkingTokens,
	}
	return a, nil
}

func openGemini(client *http.Client) (ports.Provider, error) {
	return keelgemini.New(keelgemini.Config{BaseURL: nowhere, Model: "m", HTTPClient: client})
}

func askGemini(t *testing.T, client *http.Client) (a answer, err error) {
	sdk, err := genai.NewClient(t.Context(), &genai.ClientConfig{
		APIKey: apiKey, Backend: genai.BackendGeminiAPI, HTTPClient: client, HTTPOptions: genai.HTTPOptions{BaseURL: nowhere},
	})
	if err != nil {
		return a, err
	}
	a.Usage = &domain.Usage{}
	reason := ""
	for r, err := range sdk.Models.GenerateContentStream(t.Context(), "m", genai.Text("hi"), nil) {
		if err != nil {
			return a, err
		}
		if u := r.UsageMetadata; u != nil {
			a.Usage = &domain.Usage{
				Input: int64(u.PromptTokenCount + u.ToolUsePromptTokenCount), Output: int64(u.CandidatesTokenCount + u.ThoughtsTokenCount),
				CacheRead: int64(u.CachedContentTokenCount), Reasoning: int64(u.ThoughtsTokenCount),
			}
		}
		if len(r.Candidates) == 0 {
			continue
		}
		c := r.Candidates[0]
		if c.FinishReason != "" {
			reason = string(c.FinishReason)
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			switch {
			case p.FunctionCall != nil:
				args, err := json.Marshal(p.FunctionCall.Args)
				if err != nil {
					return a, err
				}
				a.call(p.FunctionCall.Name, string(args))
			case !p.Thought:
				a.Text += p.Text
			}
		}
	}
	a.end(reason)
	return a, nil
}
