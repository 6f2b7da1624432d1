package domaintest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// Payload parses text as it would be parsed at the edge. It panics when that is refused.
func Payload(text string) domain.Payload {
	p, err := domain.ParsePayload([]byte(text), 0)
	if err != nil {
		panic(fmt.Sprintf("domaintest: payload %s: %v", text, err))
	}
	return p
}

// User is the payload of an input without a delivery, as an old client sends it.
func User(requestID, text string) domain.Payload {
	return Payload(`{"text":` + Quote(text) + `,"requestId":` + Quote(requestID) + `}`)
}

// Queued is the payload of an input that asks to be queued.
func Queued(requestID, text string) domain.Payload {
	return User(requestID, text).With("delivery", `"queue"`)
}

// Guide is the payload of an input that asks to be injected into the running turn.
func Guide(requestID, text string) domain.Payload {
	return User(requestID, text).With("delivery", `"guide"`)
}

// AssistantText is the payload of an answer without tool calls.
func AssistantText(inputs []domain.Seq, text string) domain.Payload {
	return assistant(inputs, domain.StopEndTurn, []string{textBlock(text)})
}

// Call is a tool call to be made by an answer.
type Call struct {
	ID        string
	Name      string
	Arguments string // JSON object, "" means {}
}

// AssistantCalls is the payload of an answer that makes calls.
func AssistantCalls(inputs []domain.Seq, text string, calls ...Call) domain.Payload {
	blocks := []string{textBlock(text)}
	for _, c := range calls {
		if c.Arguments == "" {
			c.Arguments = "{}"
		}
		blocks = append(blocks, fmt.Sprintf(`{"type":"toolCall","id":%s,"name":%s,"arguments":%s}`,
			Quote(c.ID), Quote(c.Name), c.Arguments))
	}
	return assistant(inputs, domain.StopToolUse, blocks)
}

// AssistantFailed is the payload of a terminal failure: reason is domain.StopError or domain.StopAborted.
func AssistantFailed(inputs []domain.Seq, reason domain.StopReason, text string) domain.Payload {
	return assistant(inputs, reason, []string{textBlock(text)})
}

// Result is the payload of a tool call's result.
func Result(call, text string) domain.Payload {
	return Payload(`{"toolCallId":` + Quote(call) + `,"content":[` + textBlock(text) + `],"isError":false,"durationMs":1}`)
}

// StandIn is the payload of the result that a call gets which will never have a real one.
func StandIn(call string) domain.Payload {
	p, err := domain.Interrupted(call, "interrupted").Payload(0)
	if err != nil {
		panic(err)
	}
	return p
}

// Compaction is the payload of a summary of everything before firstKept.
func Compaction(summary string, firstKept domain.Seq) domain.Payload {
	return Payload(fmt.Sprintf(`{"summary":%s,"firstKeptSeq":%d}`, Quote(summary), firstKept))
}

// External is the payload of an external gateway's event.
func External(externalRef string) domain.Payload {
	return Payload(`{"backend":"other","externalRef":` + Quote(externalRef) + `,"stateOwner":"external"}`)
}

// Quote returns s as a JSON string in plain spelling. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func textBlock(text string) string { return `{"type":"text","text":` + Quote(text) + `}` }

func assistant(inputs []domain.Seq, reason domain.StopReason, blocks []string) domain.Payload {
	seqs := make([]string, len(inputs))
	for i, s := range inputs {
		seqs[i] = fmt.Sprint(s)
	}
	return Payload(fmt.Sprintf(`{"role":"assistant","content":[%s],"inputSeqs":[%s],"stopReason":%s}`,
		strings.Join(blocks, ","), strings.Join(seqs, ","), Quote(string(reason))))
}
