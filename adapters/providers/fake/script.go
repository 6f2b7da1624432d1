package fake

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// Script is what the provider does call by call: the entry with the number of the call, counted from 0 in the ledger,
// so that another process goes on where the last one stopped. Beyond its end the last entry repeats.
type Script []Turn

// Turn is one answer: thinking, then text, then tool calls, then its end.
type Turn struct {
	Text     string
	Thinking string
	Calls    []Call
	Delay    time.Duration     // before anything
	Chunk    time.Duration     // between the pieces of the text
	Fault    *wire.Fault       // how the answer fails after what it holds, nil when it does not
	Cut      bool              // the stream breaks after what it holds
	Stop     domain.StopReason // of an answer that does not fail
}

// Call is one tool call. Arguments is argument text as a model writes it, which may be malformed.
type Call struct {
	ID        string
	Name      string
	Arguments string
}

// ParseScript reads a JSON array of at least one turn:
//
//	{"text"?, "thinking"?, "toolCalls"?: [{"name", "arguments"?, "id"?}], "delayMs"?, "chunkDelayMs"?,
//	 "error"?: {"status"?, "message"?, "code"?, "retryAfter"?}, "cut"?: true, "stopReason"?}
//
// Arguments that are a string are the raw text of the model, malformed or not; anything else stands for itself. The
// status of an error is that of an HTTP answer, retryAfter counts seconds. Unknown members are refused.
func ParseScript(raw []byte) (Script, error) {
	var turns []turnJSON
	if err := json.Unmarshal(raw, &turns, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("the script is not an array of turns: %w", err)
	}
	if len(turns) == 0 {
		return nil, errors.New("the script has no turn")
	}
	script := make(Script, len(turns))
	for i, t := range turns {
		turn, err := t.turn()
		if err != nil {
			return nil, fmt.Errorf("turn %d of the script: %w", i, err)
		}
		script[i] = turn
	}
	return script, nil
}

type turnJSON struct {
	Text         string     `json:"text"`
	Thinking     string     `json:"thinking"`
	ToolCalls    []callJSON `json:"toolCalls"`
	DelayMS      int64      `json:"delayMs"`
	ChunkDelayMS int64      `json:"chunkDelayMs"`
	Error        *errorJSON `json:"error"`
	Cut          bool       `json:"cut"`
	StopReason   string     `json:"stopReason"`
}

type callJSON struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Arguments wire.Raw `json:"arguments"`
}

type errorJSON struct {
	Status     int     `json:"status"`
	Message    string  `json:"message"`
	Code       string  `json:"code"`
	RetryAfter float64 `json:"retryAfter"`
}

// longestDelay bounds a delay of a script.
const longestDelay = 24 * time.Hour

func (t turnJSON) turn() (Turn, error) {
	turn := Turn{Text: t.Text, Thinking: t.Thinking, Cut: t.Cut, Stop: domain.StopReason(t.StopReason)}
	for _, d := range []struct {
		name string
		ms   int64
		to   *time.Duration
	}{{"delayMs", t.DelayMS, &turn.Delay}, {"chunkDelayMs", t.ChunkDelayMS, &turn.Chunk}} {
		if d.ms < 0 || d.ms > longestDelay.Milliseconds() {
			return Turn{}, fmt.Errorf("%s must be between 0 and %d", d.name, longestDelay.Milliseconds())
		}
		*d.to = time.Duration(d.ms) * time.Millisecond
	}
	for i, c := range t.ToolCalls {
		if c.Name == "" {
			return Turn{}, fmt.Errorf("toolCalls/%d has no name", i)
		}
		turn.Calls = append(turn.Calls, Call{ID: c.ID, Name: c.Name, Arguments: argumentText(c.Arguments)})
	}
	switch turn.Stop {
	case "":
		turn.Stop = domain.StopEndTurn
		if len(turn.Calls) > 0 {
			turn.Stop = domain.StopToolUse
		}
	case domain.StopEndTurn, domain.StopToolUse, domain.StopLength, domain.StopRefusal:
	default:
		return Turn{}, fmt.Errorf("stopReason %q is none of end_turn, tool_use, length, refusal", t.StopReason)
	}
	if e := t.Error; e != nil {
		turn.Fault = &wire.Fault{Status: e.Status, Message: e.Message, Code: e.Code, RetryAfter: wire.Seconds(e.RetryAfter)}
	}
	return turn, nil
}

func argumentText(raw wire.Raw) string {
	if len(raw) > 0 && raw.Kind() == '"' {
		return wire.String(raw)
	}
	return string(raw)
}
