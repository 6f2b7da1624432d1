package domaintest

import (
	"fmt"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// texts are what clients and models say: plain words and what has broken stores before.
var texts = []string{
	"hello", "", "d\x00i\x00r", `\u0000`, "line\u2028separator\u2029", "? ?| $1 :name ' \\ -- \" %s", "😀 é e\u0301 \ufffe \x7f\x01",
	strings.Repeat("long ", 100),
}

// edge is a step of a client.
func (g *Generator) edge() Step {
	ref := oneOf(g.src, g.refs)
	if _, ok := g.World.Ledgers[ref]; !ok || oneIn(g.src, 25) {
		return g.create()
	}
	if oneIn(g.src, 30) {
		ref.Session = "nowhere"
	}
	switch n := g.src.Int(24); {
	case n < 11:
		return g.varied(Do{ref, g.input(ref)})
	case n == 11:
		return Do{ref, g.contradict(ref)}
	case n < 14:
		return Do{ref, domain.EnsureRun{At: g.at(), Compact: oneIn(g.src, 3), NewRun: g.id("r")}}
	case n < 16:
		return Do{ref, domain.RequestCancel{Run: g.someRun(ref)}}
	case n < 19:
		return Do{ref, domain.Unpark{}}
	case n == 19 && oneIn(g.src, 4):
		return Do{ref, domain.CloseSession{}}
	case n == 20:
		title := oneOf(g.src, []string{"", "a title", "? $1 'x' 😀"})
		return Do{ref, domain.PatchSession{Title: &title}}
	case n < 23:
		id := g.id("x")
		return Do{ref, domain.AppendExternal{At: g.at(), RequestID: id, Payload: External(id)}}
	default:
		return Do{ref, g.malformed(ref)}
	}
}

// create makes one of the sessions, or asks for it again, perhaps otherwise than before.
func (g *Generator) create() Step {
	ref := oneOf(g.src, g.refs)
	owner := domain.Native
	if ref.Session == "external" {
		owner = domain.External
	}
	request := Payload(fmt.Sprintf(`{"id":%s,"n":%d}`, Quote(ref.Session), g.src.Int(8)/7))
	info := domain.SessionInfo{Title: ref.Session, Metadata: Payload(`{"of":` + Quote(ref.Tenant) + `}`)}
	return Do{ref, domain.CreateSession{At: g.at(), Request: request, Info: info, StateOwner: owner}}
}

func (g *Generator) input(ref domain.SessionRef) domain.SubmitInput {
	id := g.id("q")
	p := User(id, oneOf(g.src, texts))
	switch g.src.Int(5) {
	case 0, 1:
		p = Guide(id, oneOf(g.src, texts))
	case 2:
		p = Queued(id, oneOf(g.src, texts))
	}
	if oneIn(g.src, 6) {
		p = p.With("n", oneOf(g.src, []string{"9007199254740993", "1.0", "1e400", "-0", "8123456789012345677"})).
			With("DELIVERY", `"nonsense"`)
	}
	if oneIn(g.src, 4) {
		p = p.With("selection", `{"model":`+Quote(id)+`}`)
	}
	if l, ok := g.World.Ledgers[ref]; ok && oneIn(g.src, 4) {
		p = p.With("retryOf", fmt.Sprint(g.retried(l)))
	}
	return domain.SubmitInput{At: g.at(), RequestID: id, Payload: p, NewRun: g.id("r")}
}

// retried is what an input names in retryOf: one that waits, or any event, also one that is not there yet.
func (g *Generator) retried(l *Ledger) domain.Seq {
	if len(l.Row.Unanswered) > 0 && !oneIn(g.src, 3) {
		return oneOf(g.src, l.Row.Unanswered)
	}
	return domain.Seq(g.src.Int(int(l.Row.HeadSeq) + 3))
}

// contradict sends a known key with other content, or the same content otherwise spelled.
func (g *Generator) contradict(ref domain.SessionRef) domain.SubmitInput {
	c := g.input(ref)
	l, ok := g.World.Ledgers[ref]
	if !ok {
		return c
	}
	for _, e := range l.Events {
		if e.Kind == domain.UserMessage && oneIn(g.src, 3) {
			in, _ := domain.ParseInput(e.Payload)
			c.RequestID = in.RequestID
			c.Payload = Payload(`{"requestId":` + Quote(in.RequestID) + `,"text":` + Quote(in.Text) + `}`)
			break
		}
	}
	return c
}

// malformed is an input that must be refused, whatever the session.
func (g *Generator) malformed(ref domain.SessionRef) domain.SubmitInput {
	c := g.input(ref)
	switch g.src.Int(6) {
	case 0:
		c.Payload = c.Payload.With("requestedDelivery", `"guide"`)
	case 1:
		c.Payload = c.Payload.With("delivery", `"soon"`)
	case 2:
		c.Payload = c.Payload.With("requestId", `"another"`)
	case 3:
		c.RequestID = ""
	case 4:
		c.Payload = c.Payload.With("retryOf", "-1")
	case 5:
		c.Payload = c.Payload.With("text", "7")
	}
	return c
}

// someRun is the id that a client remembers: none, the active run's or an older one's.
func (g *Generator) someRun(ref domain.SessionRef) string {
	l, ok := g.World.Ledgers[ref]
	if !ok || oneIn(g.src, 3) || len(l.Events) == 0 {
		return ""
	}
	if oneIn(g.src, 2) {
		return l.Row.ActiveRun
	}
	return oneOf(g.src, l.Events).RunID
}
