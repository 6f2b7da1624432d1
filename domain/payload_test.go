package domain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// shape is a payload and the field at fault, "" when it is accepted.
type shape struct{ payload, field string }

func checkShapes(t *testing.T, k domain.Kind, shapes []shape) {
	t.Helper()
	for _, s := range shapes {
		err := domain.CheckShape(k, domaintest.Payload(s.payload))
		if s.field == "" {
			require.NoError(t, err, s.payload)
			continue
		}
		require.ErrorIs(t, err, domain.ErrInvalidPayload, s.payload)
		var e *domain.Error
		require.True(t, errors.As(err, &e))
		require.Equal(t, s.field, e.Field, s.payload)
	}
}

// blocks are block arrays that any content may be or not.
func blocks(wrap string) (shapes []shape) {
	for content, field := range map[string]string{
		`[]`: "", `[{"type":"text","text":""}]`: "", `[{"type":"image","mimeType":"image/png","data":"AA=="}]`: "",
		`[{"type":"chart","data":{"rows":[1]},"name":7}]`: "", // of a type that is not ours
		`[{"type":"text","text":"x","cite":[1]}]`:         "", // a member that is not ours
		`{}`: "content", `"x"`: "content", `null`: "content", `[1]`: "content/0", `["x"]`: "content/0", `[null]`: "content/0",
		`[{"type":"text","text":"x"},{"type":"text","text":7}]`: "content/1", `[{"type":7}]`: "content/0",
		`[{"type":"image","data":{}}]`: "content/0", `[{"type":"thinking","signature":1}]`: "content/0",
		`[{"type":"toolCall","id":"c","name":"n","arguments":"{}"}]`: "content/0",
		`[{"type":"toolCall","id":"c\u0000","name":"n"}]`:            "content/0",
		`[{"type":"toolCall","id":"c","name":"n\u0000"}]`:            "content/0",
	} {
		shapes = append(shapes, shape{fmt.Sprintf(wrap, content), field})
	}
	return shapes
}

func TestInputShape(t *testing.T) {
	checkShapes(t, domain.UserMessage, append(blocks(`{"content":%s}`), []shape{
		{`{}`, ""}, {`{"text":"","requestId":"","x":{"y":[null]}}`, ""}, {`{"text":"a\u0000b"}`, ""},
		{`{"text":null}`, "text"}, {`{"text":7}`, "text"}, {`{"requestId":7}`, "requestId"}, {`{"requestId":"a\u0000"}`,
			"requestId"},
		{`{"delivery":"queue"}`, ""}, {`{"delivery":"guide"}`, ""}, {`{"delivery":"Guide"}`, "delivery"},
		{`{"delivery":""}`, "delivery"},
		{`{"delivery":null}`, "delivery"}, {`{"delivery":true}`, "delivery"},
		{`{"delivery":"guide","DELIVERY":"nonsense"}`, ""},
		{`{"requestedDelivery":"now"}`, "requestedDelivery"},
		{`{"selection":{}}`, ""}, {`{"selection":{"model":"m","a":"\\u0000"}}`, ""}, {`{"selection":[]}`, "selection"},
		{`{"selection":null}`, "selection"}, {`{"selection":"x"}`, "selection"}, {`{"selection":{"a":["\u0000"]}}`,
			"selection"},
		{`{"selection":{"a\u0000":1}}`, "selection"},
		{`{"retryOf":0}`, ""}, {`{"retryOf":7}`, ""}, {`{"retryOf":1e1}`, ""}, {`{"retryOf":-1}`, "retryOf"},
		{`{"retryOf":1.5}`, "retryOf"},
		{`{"retryOf":"7"}`, "retryOf"}, {`{"retryOf":null}`, "retryOf"}, {`{"retryOf":99999999999999999999}`, "retryOf"},
	}...))
	in, err := domain.ParseInput(domaintest.Payload(
		`{"text":"t","requestId":"r","delivery":"queue","requestedDelivery":"guide","selection":{"model":"m"},"retryOf":3.0,"content":[{"type":"text","text":"b"}]}`))
	require.NoError(t, err)
	require.Equal(t, domain.Input{
		Text: "t", RequestID: "r", Delivery: domain.Queue, Requested: domain.Guide, Selection: `{"model":"m"}`, RetryOf: 3,
		Content: []domain.Block{{Type: domain.TextBlock, Text: "b"}},
	}, in)
}

func TestAssistantShape(t *testing.T) {
	shapes := blocks(`{"content":%s,"stopReason":"end_turn"}`)
	for reason, field := range map[string]string{
		`"end_turn"`: "", `"tool_use"`: "", `"length"`: "", `"refusal"`: "", `"error"`: "", `"aborted"`: "",
		`"stop"`: "stopReason",
		`""`:     "stopReason", `null`: "stopReason", `"turn_limit"`: "stopReason", `"END_TURN"`: "stopReason",
	} {
		shapes = append(shapes, shape{`{"stopReason":` + reason + `}`, field})
	}
	for list, field := range map[string]string{
		`[]`: "", `[1]`: "", `[1,2,9007199254740993]`: "", `[1.0,2e0]`: "", `[0]`: "inputSeqs", `[-1]`: "inputSeqs",
		`[2,1]`: "inputSeqs", `[1,1]`: "inputSeqs", `["1"]`: "inputSeqs", `[1.5]`: "inputSeqs", `{}`: "inputSeqs",
		`null`:     "inputSeqs",
		`[1,null]`: "inputSeqs", `[9223372036854775808]`: "inputSeqs",
	} {
		shapes = append(shapes, shape{`{"stopReason":"end_turn","inputSeqs":` + list + `}`, field})
	}
	for calls, field := range map[string]string{
		`{"type":"toolCall","id":"c","name":"n"}`:                                              "",
		`{"type":"toolCall","id":"c","name":"n"},{"type":"toolCall","id":"d","name":"n"}`:      "",
		`{"type":"toolCall","id":"c","name":"n"},{"type":"text","id":"c","text":"x"}`:          "",
		`{"type":"toolCall","id":"c","name":"n"},{"type":"toolCall","id":"c","name":"n"}`:      "content/1", // K11, turn 4
		`{"type":"toolCall","id":"c","name":"n"},{"type":"toolCall","id":"\u0063","name":"m"}`: "content/1",
		`{"type":"toolCall","id":"","name":"n"}`:                                               "content/0",
		`{"type":"toolCall","name":"n"}`:                                                       "content/0",
		`{"type":"toolCall","id":"c"}`:                                                         "content/0",
		`{"type":"toolCall","id":"c","name":""}`:                                               "content/0",
		`{"type":"toolCall","id":" c","name":"n"}`:                                             "content/0/id",
		// no key of a result
		`{"type":"toolCall","id":"` + strings.Repeat("c", 201) + `","name":"n"}`: "content/0/id",
	} {
		for _, reason := range []string{"tool_use", "error"} {
			shapes = append(shapes, shape{`{"content":[` + calls + `],"stopReason":"` + reason + `"}`, field})
		}
	}
	checkShapes(t, domain.AssistantMessage, append(shapes, []shape{
		{`{}`, "stopReason"}, {`{"stopReason":"error","error":7}`, "error"}, {`{"stopReason":"error","provider":7}`,
			"provider"},
		{`{"stopReason":"error","usage":{"input":1,"output":2.0}}`, ""}, {`{"stopReason":"error","usage":{"input":-1}}`,
			"usage"},
		{`{"stopReason":"error","usage":[]}`, "usage"}, {`{"stopReason":"error","generationId":7}`, "generationId"},
	}...))
}

func TestToolOutputShape(t *testing.T) {
	checkShapes(t, domain.ToolResult, append(blocks(`{"toolCallId":"c","content":%s}`), []shape{
		{`{"toolCallId":"c"}`, ""}, {`{"toolCallId":"c","isError":true,"interrupted":false,"durationMs":0}`, ""},
		{`{}`, "toolCallId"}, {`{"toolCallId":""}`, "toolCallId"}, {`{"toolCallId":7}`, "toolCallId"},
		{`{"toolCallId":"c\u0000"}`, "toolCallId"},
		{`{"toolCallId":"c","isError":"yes"}`, "isError"}, {`{"toolCallId":"c","interrupted":null}`, "interrupted"},
		{`{"toolCallId":"c","durationMs":-1}`, "durationMs"}, {`{"toolCallId":"c","durationMs":0.5}`, "durationMs"},
		{`{"toolCallId":"c","content":[{"type":"text","text":"d\u0000i\u0000r"}]}`, ""},
	}...))
}

func TestOtherShapes(t *testing.T) {
	checkShapes(t, domain.RunFinished, []shape{
		{`{"status":"done"}`, ""}, {`{"status":"failed","turns":0,"durationMs":1e3,"tokens":{"input":1},"toolTimings":[{}],"x":1}`, ""},
		{`{"status":"cancelled","toolTimings":[]}`, ""}, {`{}`, "status"}, {`{"status":"pending"}`, "status"},
		{`{"status":1}`, "status"},
		{`{"status":"done","turns":-1}`, "turns"}, {`{"status":"done","turns":null}`, "turns"},
		{`{"status":"done","durationMs":1.5}`, "durationMs"},
		{`{"status":"done","tokens":{"output":-1}}`, "tokens"}, {`{"status":"done","toolTimings":null}`, "toolTimings"},
		{`{"status":"done","toolTimings":{}}`, "toolTimings"}, {`{"status":"done","toolTimings":[{},1]}`, "toolTimings"},
		{`{"status":"done","toolTimings":[null]}`, "toolTimings"},
	})
	checkShapes(t, domain.Compaction, []shape{
		{`{"summary":"","firstKeptSeq":1}`, ""}, {`{"firstKeptSeq":1}`, "summary"},
		{`{"summary":null,"firstKeptSeq":1}`, "summary"},
		{`{"summary":"s"}`, "firstKeptSeq"}, {`{"summary":"s","firstKeptSeq":0}`, "firstKeptSeq"},
		{`{"summary":"s","firstKeptSeq":-3}`, "firstKeptSeq"}, {`{"summary":"s","firstKeptSeq":"1"}`, "firstKeptSeq"},
	})
	checkShapes(t, domain.ExternalEvent, []shape{
		{`{"backend":"b","externalRef":"r"}`, ""}, {`{"backend":1,"externalRef":null,"stateOwner":"external"}`, ""},
		{`{"externalRef":"r"}`, "backend"}, {`{"backend":"b"}`, "externalRef"},
		{`{"backend":"b","externalRef":"r","stateOwner":"native"}`, "stateOwner"},
		{`{"backend":"b","externalRef":"r","stateOwner":null}`, "stateOwner"},
		{`{"backend":"b","externalRef":"r","requestId":7}`, "requestId"},
	})
	checkShapes(t, domain.RunStarted, []shape{{`{}`, ""}, {`{"anything":[1]}`, ""}})
	for _, k := range domain.Kinds() {
		require.ErrorIs(t, domain.CheckShape(k.Kind, domain.Payload{}), domain.ErrInvalidPayload,
			"%s without a payload", k.Kind)
		require.ErrorIs(t, domain.CheckShape(k.Kind, domain.StoredPayload(`[]`)), domain.ErrInvalidPayload, k.Kind)
	}
}

func TestParseSelection(t *testing.T) {
	s, err := domain.ParseSelection(`{"model":"m","thinking":"high","temperature":0.5,"maxTokens":9,"tools":["a","\u0062"],"other":1}`)
	require.NoError(t, err)
	require.Equal(t, domain.Selection{
		Model: "m", Thinking: "high", Temperature: new(0.5), MaxTokens: 9, Tools: []string{"a", "b"}, HasTools: true,
	}, s)
	s, err = domain.ParseSelection(`{"tools":[]}`)
	require.NoError(t, err)
	require.True(t, s.HasTools)
	s, err = domain.ParseSelection("")
	require.NoError(t, err)
	require.Equal(t, domain.Selection{}, s)
	for _, bad := range []string{
		`{"model":1}`, `{"thinking":{}}`, `{"temperature":"0.5"}`, `{"temperature":1e999}`, `{"maxTokens":-1}`, `{"tools":"a"}`,
		`{"tools":[1]}`, `{"tools":null}`, `[]`,
	} {
		_, err := domain.ParseSelection(bad)
		require.ErrorIs(t, err, domain.ErrInvalidPayload, bad)
	}
}
