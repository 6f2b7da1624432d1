package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Writers is how many writers a client has: they share its session.
const Writers = 2

// Op is what a client does.
type Op string

// The operations. Each is repeated, at the next server, until it is acknowledged.
const (
	Input  Op = "input"  // submit an input
	Again  Op = "again"  // submit the last input once more
	Cancel Op = "cancel" // cancel the run of the last input
	Ensure Op = "ensure" // POST …/run
	Page   Op = "page"   // read a page of the ledger
	Probe  Op = "probe"  // reach for a session of another tenant
	Move   Op = "move"   // go on in a new session
)

// Step is one step of a client's script.
type Step struct {
	Wait     time.Duration
	Op       Op
	Delivery string // of an input: "", queue or guide
	Do       string // of an input: what the backend shall do with it, see package backend
	Twice    bool   // send it to two servers at once
}

func (s Step) String() string {
	text := fmt.Sprintf("after %v %s", s.Wait, s.Op)
	if s.Delivery != "" {
		text += " " + s.Delivery
	}
	if s.Do != "" {
		text += " [do:" + s.Do + "]"
	}
	if s.Twice {
		text += " twice"
	}
	return text
}

// Script is what one writer does: a sequence without an end, of which a run takes a beginning.
type Script struct {
	rng   *rand.Rand
	steps int
	moves bool
}

// sessionSteps is after how many steps a client goes on in a new session.
const sessionSteps = 40

// NewScript returns the script of one writer of a client. Only a client's first writer moves it to a new session.
func NewScript(seed uint64, client, writer int) *Script {
	return &Script{rng: stream(seed, fmt.Sprintf("client %d writer %d", client, writer)), moves: writer == 0}
}

// Next returns the next step.
func (s *Script) Next() Step {
	s.steps++
	if s.moves && s.steps%sessionSteps == 0 {
		return Step{Op: Move}
	}
	step := Step{Wait: between(s.rng, 10, 600)}
	switch n := s.rng.IntN(100); {
	case n < 70:
		step.Op, step.Delivery, step.Do = Input, pick(s.rng, "", "queue", "guide", "guide"), s.directive()
		step.Twice = s.rng.IntN(12) == 0
	case n < 78:
		step.Op = Again
	case n < 84:
		step.Op = Cancel
	case n < 90:
		step.Op = Ensure
	case n < 97:
		step.Op = Page
	default:
		step.Op = Probe
	}
	return step
}

// directive says how the backend answers: pieces and the milliseconds between them, tool calls by their initials, how
// long a sleep takes, a fault and how often.
func (s *Script) directive() string {
	parts := []string{fmt.Sprintf("pieces=%d", 1+s.rng.IntN(5)), fmt.Sprintf("delay=%d", s.rng.IntN(80))}
	if s.rng.IntN(3) == 0 {
		parts = append(parts, "tools="+pick(s.rng, "c", "s", "s", "cs", "sc", "cct", "ss", "cst"), fmt.Sprintf("rounds=%d", 1+s.rng.IntN(2)), fmt.Sprintf("sleep=%d", s.rng.IntN(1000)))
	}
	if s.rng.IntN(20) == 0 {
		parts = append(parts, "fail="+pick(s.rng, "503", "cut", "error", "reset", "400"), fmt.Sprintf("times=%d", 1+s.rng.IntN(2)))
	}
	return strings.Join(parts, ",")
}

// Connection is how one connection of a reader goes.
type Connection struct {
	Partials bool
	Frames   int           // it leaves after so many frames
	After    time.Duration // or after this time
	Header   bool          // it names its cursor by Last-Event-ID, not in the query
}

// ReaderScript is how one reader connects, without an end.
type ReaderScript struct{ rng *rand.Rand }

// NewReaderScript returns the script of one reader of a client.
func NewReaderScript(seed uint64, client, reader int) *ReaderScript {
	return &ReaderScript{stream(seed, fmt.Sprintf("client %d reader %d", client, reader))}
}

// Next returns the next connection.
func (s *ReaderScript) Next() Connection {
	return Connection{
		Partials: s.rng.IntN(2) == 0, Frames: 1 + s.rng.IntN(60), After: between(s.rng, 200, 8000), Header: s.rng.IntN(2) == 0,
	}
}

func pick(rng *rand.Rand, from ...string) string { return from[rng.IntN(len(from))] }
