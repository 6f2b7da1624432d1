// Package plan makes the schedule of a run from its seed, before anything starts: the faults, lane by lane, and what
// each client does. It is pure: the same options give the same plan.
package plan

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault is a kind of fault.
type Fault string

// The faults.
const (
	Kill      Fault = "kill"      // SIGKILL of a server at a moment
	Point     Fault = "point"     // a server kills itself at a named point
	Stop      Fault = "stop"      // SIGSTOP past the lease, then SIGCONT
	Term      Fault = "term"      // SIGTERM, and a successor on the same address
	Roll      Fault = "roll"      // term of each server in turn
	Terminate Fault = "terminate" // pg_terminate_backend of every connection, several times
	Restart   Fault = "restart"   // immediate stop and start of Postgres
)

// Faults are all kinds, in the order of the help text.
var Faults = []Fault{Kill, Point, Stop, Term, Roll, Terminate, Restart}

// ParseFaults reads a list with commas.
func ParseFaults(list string) ([]Fault, error) {
	var faults []Fault
	for name := range strings.SplitSeq(list, ",") {
		f := Fault(strings.TrimSpace(name))
		if !slices.Contains(Faults, f) {
			return nil, fmt.Errorf("unknown fault %q: want some of %v", name, Faults)
		}
		if !slices.Contains(faults, f) {
			faults = append(faults, f)
		}
	}
	return faults, nil
}

// OfDatabase reports whether the fault hits the database and not a server.
func (f Fault) OfDatabase() bool { return f == Terminate || f == Restart }

// Options say what to plan.
type Options struct {
	Seed    uint64
	Servers int
	Cycles  int // faults in all; a roll counts as one
	Faults  []Fault
	Lease   time.Duration // how long the servers' lease lasts
}

// Action is one fault.
type Action struct {
	Fault Fault
	Slot  int           // the server; 0 for a fault of the database
	After time.Duration // wait before it: from when the server is ready again, or the fault before ended
	Hold  time.Duration // how long a stopped server stays stopped; between the terminations of a storm
	Count int           // terminations of a storm
	Point string        // for Point: the value of KEEL_CRASH_AT
	Drain bool          // for Point: SIGTERM comes first, the point is passed in the drain
	Early bool          // for Kill: count from the start of the process, ready or not
}

func (a Action) String() string {
	s := fmt.Sprintf("%s server %d after %v", a.Fault, a.Slot, a.After)
	switch {
	case a.Fault == Point && a.Drain:
		s += " at " + a.Point + " while it drains"
	case a.Fault == Point:
		s += " at " + a.Point
	case a.Fault == Stop:
		s += fmt.Sprintf(" for %v", a.Hold)
	case a.Fault == Terminate:
		s += fmt.Sprintf(", %d times with %v between", a.Count, a.Hold)
	case a.Early:
		s += " from its start"
	}
	return s
}

// Plan is a schedule. The lanes go on side by side, each lane's actions one after the other.
type Plan struct {
	Options
	Lanes [][]Action
}

// A point of the server's code (app/crash_torture.go), and how many times it is passed at most before the crash.
type point struct {
	name  string
	most  int
	drain bool
}

var points = []point{
	{"before:SubmitInput", 6, false}, {"committed:user.message", 6, false}, {"after:SubmitInput", 6, false},
	{"before:Claim", 12, false}, {"after:Claim", 4, false},
	{"before:AppendAssistant", 6, false}, {"committed:assistant.message", 6, false}, {"after:AppendAssistant", 6, false},
	{"before:Execute", 4, false}, {"after:Execute", 4, false},
	{"before:AppendToolResult", 4, false}, {"committed:tool.result", 4, false}, {"after:AppendToolResult", 4, false},
	{"before:Settle", 4, false}, {"committed:run.finished", 4, false}, {"after:Settle", 4, false},
	{"before:HandBack", 1, true}, {"after:HandBack", 1, true},
	{"before:Rescue", 2, false}, {"after:Rescue", 2, false},
	{"before:Renew", 4, false}, {"after:Renew", 4, false},
	{"before:Register", 1, false}, {"after:Register", 1, false},
	{"before:RequestCancel", 2, false}, {"after:RequestCancel", 2, false},
	{"before:EnsureRun", 2, false}, {"after:EnsureRun", 2, false},
	{"before:CreateSession", 2, false}, {"after:CreateSession", 2, false},
}

// New makes the plan of o.
func New(o Options) Plan {
	p := Plan{Options: o}
	rng := stream(o.Seed, "faults")
	deck := &deck{rng: rng}
	slots := make([][]Action, o.Servers)
	var order []int // whose turn it is, so that no lane is much longer than the others
	var rolls, database []Action
	for i := range o.Cycles {
		fault := o.Faults[i%len(o.Faults)]
		switch {
		case fault == Roll:
			for slot := range o.Servers {
				rolls = append(rolls, Action{Fault: Term, Slot: slot, After: between(rng, 50, 400)})
			}
		case fault.OfDatabase():
			database = append(database, databaseAction(rng, fault))
		default:
			if len(order) == 0 {
				order = rng.Perm(o.Servers)
			}
			slot := order[0]
			order = order[1:]
			slots[slot] = append(slots[slot], serverAction(rng, deck, fault, slot, o.Lease))
		}
	}
	for _, lane := range append(slots, rolls, database) {
		if len(lane) > 0 {
			p.Lanes = append(p.Lanes, lane)
		}
	}
	return p
}

func serverAction(rng *rand.Rand, d *deck, fault Fault, slot int, lease time.Duration) Action {
	a := Action{Fault: fault, Slot: slot, After: between(rng, 50, 1200)}
	switch fault {
	case Kill:
		if a.Early = rng.IntN(10) == 0; a.Early {
			a.After = between(rng, 5, 300)
		}
	case Point:
		p := d.draw()
		a.Point, a.Drain = fmt.Sprintf("%s:%d", p.name, 1+rng.IntN(p.most)), p.drain
	case Stop:
		a.Hold = lease + between(rng, 200, 1500)
	}
	return a
}

func databaseAction(rng *rand.Rand, fault Fault) Action {
	a := Action{Fault: fault, After: between(rng, 300, 1500)}
	if fault == Terminate {
		a.Count, a.Hold = 1+rng.IntN(8), between(rng, 20, 200)
	}
	return a
}

// deck deals all points before it deals one again.
type deck struct {
	rng  *rand.Rand
	left []point
}

func (d *deck) draw() point {
	if len(d.left) == 0 {
		d.left = slices.Clone(points)
		d.rng.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	p := d.left[0]
	d.left = d.left[1:]
	return p
}

// stream returns the random numbers of one purpose: what one client draws does not depend on how often others draw.
func stream(seed uint64, purpose string) *rand.Rand {
	var h uint64 = 14695981039346656037 // FNV-1a
	for _, c := range []byte(purpose) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

func between(rng *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+rng.IntN(to-from)) * time.Millisecond
}

// Print writes the plan with the beginning of each client's script, one action a line.
func (p Plan) Print(w io.Writer, clients, actions int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", p.Seed)
	for i, lane := range p.Lanes {
		for _, a := range lane {
			fmt.Fprintf(&b, "lane %d: %s\n", i, a)
		}
	}
	for client := range clients {
		for writer := range Writers {
			script := NewScript(p.Seed, client, writer)
			for range actions {
				fmt.Fprintf(&b, "client %d writer %d: %s\n", client, writer, script.Next())
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
