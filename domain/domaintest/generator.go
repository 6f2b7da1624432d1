package domaintest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keel-agent/keel/domain"
)

// Options bound what a Generator does.
type Options struct {
	Sessions int  // native ones, over two tenants; at least 1
	External bool // one more that is external
	Budget   int  // attempts per run
	Clock    bool // time may pass, so that back-offs differ; without it a repeated attempt is due at once or never
	Busy     bool // most steps are those of honest workers, so that conversations become long
	Propose  bool // half of the compactions cut where domain.Transcript.Cut says

	// Vary, unless it is nil, rewords the new commands of honest clients and workers: what they say, not what it is about.
	// l is nil when there is no such session. A repeated command stays as it was.
	Vary func(l *Ledger, cmd domain.Command) domain.Command
}

// Generator makes up a history while it happens: each step is chosen by what the World holds and by what the workers
// and clients in it know, stale knowledge included. It plays clients that repeat and contradict themselves, workers that
// are honest, late, fenced or wrong, and processes that die at any point.
type Generator struct {
	World *World
	History

	src      Source
	opt      Options
	refs     []domain.SessionRef
	attempts []*worker
	queue    []Step // to be given next
	seq      int    // makes ids and times unique
	honest   bool   // the step being given must not be refused
}

// History is what was given so far, and what came of it.
type History struct {
	Steps   []Step
	Replies []Reply
}

// String lists the steps, one a line, each refused one with its error.
func (h History) String() string {
	var b strings.Builder
	for i, step := range h.Steps {
		fmt.Fprintf(&b, "%d %s", i+1, Describe(step))
		if err := h.Replies[i].Err; err != nil {
			fmt.Fprintf(&b, " -> %v", err)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// worker is what a process remembers of an attempt.
type worker struct {
	ref      domain.SessionRef
	run      string
	token    domain.Token
	mode     domain.ClaimMode
	claim    domain.Seq
	injected []domain.Seq // guides
	snapshot []domain.Seq // of the request on its way, nil when there is none
	failed   bool         // the last answer was a terminal failure
	signals  int64        // read before it looked at what it waits for
	last     *Do          // what it did last
}

// NewGenerator returns a generator for a new world.
func NewGenerator(src Source, opt Options) *Generator {
	g := &Generator{World: NewWorld(), src: src, opt: opt}
	for i := range max(opt.Sessions, 1) {
		g.refs = append(g.refs, domain.SessionRef{Tenant: fmt.Sprintf("t%d", i%2+1), Session: fmt.Sprintf("s%d", i/2+1)})
	}
	if opt.External {
		g.refs = append(g.refs, domain.SessionRef{Tenant: "t1", Session: "external"})
	}
	return g
}

// Step makes up one step and gives it to the World. It returns the World's first fault, if there is one, or an error
// when a step was refused that must not be.
func (g *Generator) Step() error {
	var step Step
	for step == nil {
		g.honest = false
		step = g.choose()
	}
	return g.give(step)
}

func (g *Generator) give(step Step) error {
	r := g.World.Do(step)
	g.Steps, g.Replies = append(g.Steps, step), append(g.Replies, r)
	g.learn(step, r)
	if err := g.World.Check(); err != nil {
		return fmt.Errorf("step %d, %s: %w", len(g.Steps), Describe(step), err)
	}
	if g.honest && r.Err != nil {
		return fmt.Errorf("step %d, %s, was refused: %w", len(g.Steps), Describe(step), r.Err)
	}
	return nil
}

// Describe names a step in one line.
func Describe(step Step) string {
	if do, ok := step.(Do); ok {
		return fmt.Sprintf("%s/%s %T%+v", do.Ref.Tenant, do.Ref.Session, do.Cmd, do.Cmd)
	}
	return fmt.Sprintf("%T%+v", step, step)
}

// learn updates what the workers know, unless the reply is lost on its way.
func (g *Generator) learn(step Step, r Reply) {
	switch s := step.(type) {
	case Claim:
		for _, out := range r.Claims {
			if oneIn(g.src, 8) {
				continue // lost: the process will find the run among those it owns, or die
			}
			g.attempts = append(g.attempts, newWorker(s.Process, out))
		}
	case Bury:
		for _, o := range r.Orphans {
			if !oneIn(g.src, 4) {
				g.queue = append(g.queue, Do{o.Ref, domain.Rescue{Run: o.Run, Jitter: g.jitter()}})
			}
		}
	}
}

func newWorker(process string, out domain.Outcome) *worker {
	return &worker{
		ref: out.Session.Ref, run: out.Run.ID, token: domain.Token{Process: process, Epoch: out.Session.Epoch},
		mode: out.Claim, claim: *out.Run.ClaimSeq, signals: out.Run.Signals,
	}
}

// choose returns the next step, or nil when the choice was not possible.
func (g *Generator) choose() Step {
	if len(g.queue) > 0 && !oneIn(g.src, 3) {
		next := g.queue[0]
		g.queue = g.queue[1:]
		return next
	}
	if len(g.World.Ledgers) == 0 {
		return g.create()
	}
	if g.opt.Busy && !oneIn(g.src, 5) {
		return g.busy()
	}
	switch n := g.src.Int(100); {
	case n < 22:
		return g.edge()
	case n < 34:
		return g.process()
	case n < 42:
		return g.repeat()
	case n < 92:
		return g.work()
	default:
		return g.misbehave()
	}
}

// busy is a step of an honest worker, or one that makes for there being one: nil when no run is due, now or later.
func (g *Generator) busy() Step {
	live := g.live()
	if g.someWorker(true) != nil || len(live) == 0 {
		return g.work()
	}
	for _, ref := range g.World.Refs() {
		l := g.World.Ledgers[ref]
		switch run := l.Runs[l.Row.ActiveRun]; {
		case run.Status != domain.StatusPending || run.Parked:
		case run.AvailableAt.After(g.World.Now):
			return Advance{run.AvailableAt.Sub(g.World.Now)}
		default:
			return Claim{oneOf(g.src, live), g.opt.Budget}
		}
	}
	return nil
}

func (g *Generator) varied(do Do) Do {
	if g.opt.Vary != nil {
		do.Cmd = g.opt.Vary(g.World.Ledgers[do.Ref], do.Cmd)
	}
	return do
}

// process is a step in the life of a server process.
func (g *Generator) process() Step {
	live := g.live()
	switch n := g.src.Int(13); {
	case n < 2 || len(live) == 0:
		if len(live) >= 3 {
			return nil
		}
		return Register{g.id("p")}
	case n < 7:
		return Claim{oneOf(g.src, live), g.opt.Budget}
	case n == 7:
		return Kill{oneOf(g.src, live)}
	case n == 8 && oneIn(g.src, 3):
		return Drain{oneOf(g.src, live)}
	case n == 9 && len(g.attempts) > 0:
		return Claim{oneOf(g.src, g.attempts).token.Process, g.opt.Budget} // perhaps a dead one
	case n == 10 && g.opt.Clock:
		return Advance{time.Duration(g.src.Int(120)) * time.Minute}
	case n == 11:
		return g.beat()
	default:
		return Bury{}
	}
}

// beat hands back a run that its process does not know it has, because the reply to the claim was lost.
func (g *Generator) beat() Step {
	for _, ref := range g.World.Refs() {
		row := g.World.Ledgers[ref].Row
		p, ok := g.World.Processes[row.Owner]
		token := domain.Token{Process: row.Owner, Epoch: row.Epoch}
		known := func(w *worker) bool { return w.ref == ref && w.token == token }
		if ok && !p.Dead && !slices.ContainsFunc(g.attempts, known) {
			g.honest = true
			return Do{ref, domain.HandBack{Run: row.ActiveRun, Token: token}}
		}
	}
	return nil
}

// repeat gives an earlier command again, as after a lost reply. A new run gets a new id: whoever repeats a request
// mints it anew.
func (g *Generator) repeat() Step {
	if len(g.Steps) == 0 {
		return nil
	}
	recent := g.Steps[max(0, len(g.Steps)-15):]
	do, ok := oneOf(g.src, recent).(Do)
	if !ok {
		return nil
	}
	switch c := do.Cmd.(type) {
	case domain.SubmitInput:
		c.NewRun = g.id("r")
		do.Cmd = c
	case domain.EnsureRun:
		c.NewRun = g.id("r")
		do.Cmd = c
	}
	return do
}

func (g *Generator) live() []string {
	var ids []string
	for id, p := range g.World.Processes {
		if !p.Dead && !p.Draining {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (g *Generator) id(prefix string) string {
	g.seq++
	return fmt.Sprintf("%s%03d", prefix, g.seq)
}

// at is the time of a command: mostly later than the one before, now and then by a clock that is behind.
func (g *Generator) at() time.Time {
	g.seq++
	if oneIn(g.src, 10) {
		return Epoch.Add(-time.Minute)
	}
	return Epoch.Add(time.Duration(g.seq) * 7 * time.Millisecond)
}

func (g *Generator) jitter() float64 {
	if !g.opt.Clock {
		return 0
	}
	return float64(g.src.Int(4)) / 4
}

func (g *Generator) backoff() time.Duration {
	if oneIn(g.src, 3) {
		return time.Hour
	}
	return 0
}
