// Package check judges a run of the torture rig from outside: it reads what the clients wrote down and the rows of the
// database, and knows nothing of the code that made them. It is pure; the payloads are parsed by encoding/json alone.
package check

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Record is one line of the clients' log. Exactly one member is set.
type Record struct {
	Submit  *Submit  `json:"submit,omitempty"`
	Cancel  *Cancel  `json:"cancel,omitempty"`
	Read    *Read    `json:"read,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
	Probe   *Probe   `json:"probe,omitempty"`
	Effect  *Effect  `json:"effect,omitempty"`
}

// Submit is an input that a client sent, however often. Times are milliseconds since 1970 by the client's clock.
type Submit struct {
	Tenant    string `json:"tenant"`
	Session   string `json:"session"`
	RequestID string `json:"requestId"`
	Text      string `json:"text"`
	Delivery  string `json:"delivery,omitempty"` // as the client asked; "" when it did not say
	Note      string `json:"note"`               // raw JSON that must come back unchanged
	SentAt    int64  `json:"sentAt"`
	AckedAt   int64  `json:"ackedAt,omitempty"` // of the first acknowledgement
	Tries     int    `json:"tries"`
	Acks      []Ack  `json:"acks,omitempty"`
}

// Ack is one acknowledgement of an input.
type Ack struct {
	Created  bool   `json:"created"`
	Seq      int64  `json:"seq"`
	Delivery string `json:"delivery"`
	Run      string `json:"run"`
}

// Cancel is a request to cancel a run, acknowledged or not.
type Cancel struct {
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Run     string `json:"run"`
}

// Read is what one connection of a stream, or one page of a snapshot, gave.
type Read struct {
	Tenant   string    `json:"tenant"`
	Session  string    `json:"session"`
	Reader   string    `json:"reader"` // the frames of one reader, over all its connections, are the whole ledger; "" for a page
	After    int64     `json:"after"`
	Frames   []Frame   `json:"frames"`
	Partials []Partial `json:"partials,omitempty"`
}

// Frame is one committed event as a reader got it.
type Frame struct {
	ID   int64  `json:"id"` // of the frame; the event's seq for a page
	Seq  int64  `json:"seq"`
	Kind string `json:"kind"`
	Hash string `json:"hash"` // PayloadHash
	At   string `json:"at"`   // createdAt
}

// Partial is all that one connection got of one generation that is not committed.
type Partial struct {
	Generation string `json:"generation"`
	Run        string `json:"run"`
	Text       string `json:"text"`
	MovedID    bool   `json:"movedId,omitempty"` // a frame of it carried an id
}

// Failure is something that a client met and must not meet, or an end of a server that nobody caused.
type Failure struct {
	Kind    Kind   `json:"kind"`
	Tenant  string `json:"tenant,omitempty"`
	Session string `json:"session,omitempty"`
	Detail  string `json:"detail"`
}

// Probe is an attempt to reach a session of another tenant.
type Probe struct {
	Tenant  string `json:"tenant"` // whose token was used
	Session string `json:"session"`
	What    string `json:"what"`
	Status  int    `json:"status"`
}

// Effect is one execution of a tool, as the server wrote it down before it began.
type Effect struct {
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Call    string `json:"call"`
	Tool    string `json:"tool"`
}

// History is the clients' log.
type History struct {
	Submits  []Submit
	Cancels  []Cancel
	Reads    []Read
	Failures []Failure
	Probes   []Probe
	Effects  []Effect

	index map[string]int // request id: its place in Submits
}

// Add adds a record. Several of one input become one.
func (h *History) Add(r Record) {
	switch {
	case r.Submit != nil:
		h.submit(*r.Submit)
	case r.Cancel != nil:
		h.Cancels = append(h.Cancels, *r.Cancel)
	case r.Read != nil:
		h.Reads = append(h.Reads, *r.Read)
	case r.Failure != nil:
		h.Failures = append(h.Failures, *r.Failure)
	case r.Probe != nil:
		h.Probes = append(h.Probes, *r.Probe)
	case r.Effect != nil:
		h.Effects = append(h.Effects, *r.Effect)
	}
}

func (h *History) submit(s Submit) {
	if h.index == nil {
		h.index = map[string]int{}
	}
	i, again := h.index[s.RequestID]
	if !again {
		h.index[s.RequestID] = len(h.Submits)
		h.Submits = append(h.Submits, s)
		return
	}
	first := &h.Submits[i]
	first.Tries += s.Tries
	if len(first.Acks) == 0 {
		first.AckedAt = s.AckedAt
	}
	first.Acks = append(first.Acks, s.Acks...)
}

// ReadHistory reads a log of one JSON record a line.
func ReadHistory(from io.Reader) (History, error) {
	var h History
	err := eachLine(from, func(line []byte) error {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		h.Add(r)
		return nil
	})
	return h, err
}

const longestLine = 64 << 20

func eachLine(from io.Reader, f func(line []byte) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 1<<16), longestLine)
	for n := 1; lines.Scan(); n++ {
		if err := f(lines.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}
