package check

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Ledger is what the database holds, read by plain SQL. Events are sorted by session and seq.
type Ledger struct {
	Sessions []Session
	Events   []Event
	Runs     []Run
}

// Session is a row of sessions.
type Session struct {
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Head    int64  `json:"head"`
	Epoch   int64  `json:"epoch"`
	Owner   string `json:"owner,omitempty"`
}

// Event is a row of events.
type Event struct {
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Seq     int64  `json:"seq"`
	Kind    string `json:"kind"`
	Key     string `json:"key,omitempty"`
	Payload string `json:"payload"`
	At      int64  `json:"at"` // milliseconds since 1970
	Run     string `json:"run,omitempty"`
	Epoch   int64  `json:"epoch"`
}

// Run is a row of runs.
type Run struct {
	Tenant   string `json:"tenant"`
	Session  string `json:"session"`
	ID       string `json:"id"`
	Status   string `json:"status"`
	Reason   string `json:"reason,omitempty"`
	Error    string `json:"error,omitempty"`
	Attempts int64  `json:"attempts"`
	Due      int64  `json:"due"` // milliseconds since 1970
}

// The kinds of events, as the protocol names them.
const (
	userMessage      = "user.message"
	assistantMessage = "assistant.message"
	toolResult       = "tool.result"
	runFinished      = "run.finished"
)

// row is one line of a written ledger.
type row struct {
	Session *Session `json:"session,omitempty"`
	Event   *Event   `json:"event,omitempty"`
	Run     *Run     `json:"run,omitempty"`
}

// Write writes l as one JSON row a line.
func (l Ledger) Write(to io.Writer) error {
	out := json.NewEncoder(to)
	for i := range l.Sessions {
		if err := out.Encode(row{Session: &l.Sessions[i]}); err != nil {
			return err
		}
	}
	for i := range l.Runs {
		if err := out.Encode(row{Run: &l.Runs[i]}); err != nil {
			return err
		}
	}
	for i := range l.Events {
		if err := out.Encode(row{Event: &l.Events[i]}); err != nil {
			return err
		}
	}
	return nil
}

// ReadLedger reads what Write wrote.
func ReadLedger(from io.Reader) (Ledger, error) {
	var l Ledger
	err := eachLine(from, func(line []byte) error {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		switch {
		case r.Session != nil:
			l.Sessions = append(l.Sessions, *r.Session)
		case r.Event != nil:
			l.Events = append(l.Events, *r.Event)
		case r.Run != nil:
			l.Runs = append(l.Runs, *r.Run)
		}
		return nil
	})
	return l, err
}

// payload is the part of any event's payload that the rules look at.
type payload struct {
	Text        string          `json:"text"`
	RequestID   string          `json:"requestId"`
	Delivery    *string         `json:"delivery"`
	Requested   *string         `json:"requestedDelivery"`
	Note        json.RawMessage `json:"note"`
	Content     []block         `json:"content"`
	InputSeqs   []int64         `json:"inputSeqs"`
	Stop        string          `json:"stopReason"`
	Generation  string          `json:"generationId"`
	Call        string          `json:"toolCallId"`
	IsError     bool            `json:"isError"`
	Interrupted bool            `json:"interrupted"`
	Status      string          `json:"status"`
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func (p payload) said() string {
	var text strings.Builder
	for _, b := range p.Content {
		if b.Type == "text" {
			text.WriteString(b.Text)
		}
	}
	return text.String()
}

func (p payload) calls() []block {
	return slices.DeleteFunc(slices.Clone(p.Content), func(b block) bool { return b.Type != "toolCall" })
}

// completed reports whether an assistant.message answers what it lists.
func (p payload) completed() bool { return p.Stop != "error" && p.Stop != "aborted" }

// PayloadHash is how logs name a payload without keeping it.
func PayloadHash(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:12])
}

// Token marks an input's text, so that an answer can tell from which inputs it was made.
func Token(requestID string) string { return "[in:" + requestID + "]" }

var tokens = regexp.MustCompile(`\[in:([^\[\]\s"\\]+)\]`)

// Tokens returns the request ids whose tokens stand in text, in order.
func Tokens(text string) []string {
	var ids []string
	for _, m := range tokens.FindAllStringSubmatch(text, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// RequestID returns the id of an input: it begins with what Owns looks for.
func RequestID(tenant, session, rest string) string { return tenant + "/" + session + "/" + rest }

// owns reports whether an input of this id belongs to the session.
func owns(tenant, session, requestID string) bool {
	return strings.HasPrefix(requestID, tenant+"/"+session+"/")
}

func wireTime(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
