package bus

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

var session = domain.SessionRef{Tenant: "t", Session: "s"}

func saying(text string) ports.Partial {
	return ports.Partial{Ref: session, GenerationID: "g", Run: "r", Attempt: 2, Epoch: 3, Delta: ports.Delta{Text: text}}
}

// everything is wanted, and nobody is told.
type everything struct{}

func (everything) Wanted(Digest) bool { return true }
func (everything) Join(Digest)        {}
func (everything) Leave(Digest)       {}

// joined counts what an Interest is told.
type joined map[Digest]int

func (joined) Wanted(Digest) bool { return false }
func (j joined) Join(d Digest)    { j[d]++ }
func (j joined) Leave(d Digest)   { j[d]-- }

func TestRelayWithinTheProcess(t *testing.T) {
	portstest.TestPartials(t, func(*testing.T) ports.Partials { return NewRelay(everything{}, 100) })
}

// Texts keep to the limit, are cut between code points, and give the frame when put together again; none is like another.
func TestTextsKeepToTheLimit(t *testing.T) {
	const limit = 400
	long := strings.Repeat("a\x00é😀<\u2028", 300)
	for name, sent := range map[string]ports.Delta{
		"text": {Text: long}, "thinking": {Thinking: long}, "arguments": {ToolCall: &ports.ToolCallPart{Index: 1, Name: "ls", Arguments: long}},
	} {
		t.Run(name, func(t *testing.T) {
			p := saying("")
			p.Delta = sent
			e := encoder{max: limit}
			texts := e.encode(p)
			var all ports.Partial
			for i, text := range texts {
				require.LessOrEqual(t, len(text), limit)
				require.NotContains(t, string(text), "\x00")
				got, err := decode(text)
				require.NoError(t, err)
				if i == 0 {
					all = got
				} else {
					joined, ok := join(all, got)
					require.True(t, ok)
					all = joined
				}
			}
			all.Ref = session
			require.True(t, reflect.DeepEqual(p, all), "put together again it is what it was")
			require.NotEqual(t, texts[0], e.encode(p)[0], "the server would send it once")
		})
	}
	e := encoder{max: limit}
	require.Empty(t, e.encode(ports.Partial{Delta: ports.Delta{End: long}}), "what cannot be cut is left out")
	require.Empty(t, e.encode(ports.Partial{GenerationID: long, Delta: ports.Delta{Text: "x"}}))
}

func TestJoinsOnlyWhatGoesOn(t *testing.T) {
	call := func(index int, name, arguments string) ports.Partial {
		p := saying("")
		p.Delta.ToolCall = &ports.ToolCallPart{Index: index, Name: name, Arguments: arguments}
		return p
	}
	other := func(change func(p *ports.Partial)) ports.Partial {
		p := saying("b")
		change(&p)
		return p
	}
	first := call(1, "ls", "{")
	both, ok := join(first, call(1, "", "}"))
	require.True(t, ok)
	require.Equal(t, call(1, "ls", "{}"), both)
	require.Equal(t, call(1, "ls", "{"), first, "others hold it too")
	for _, next := range []ports.Partial{
		first, call(2, "", "}"), other(func(p *ports.Partial) { p.Delta = ports.Delta{Thinking: "b"} }),
		other(func(p *ports.Partial) { p.Delta = ports.Delta{End: "failed"} }),
		other(func(p *ports.Partial) { p.GenerationID = "h" }), other(func(p *ports.Partial) { p.Epoch++ }),
		other(func(p *ports.Partial) { p.Attempt++ }), other(func(p *ports.Partial) { p.Run = "r2" }),
	} {
		for _, last := range []ports.Partial{saying("a"), first} {
			_, ok := join(last, next)
			require.False(t, ok, "%+v %+v", last, next)
		}
	}
}

// However much is published, what waits for the other processes is bounded, and so is what waits for a subscriber.
func TestWhatWaitsIsBounded(t *testing.T) {
	r := NewRelay(everything{}, 8_000)
	_, cancel := r.Subscribe(session)
	defer cancel()
	text := strings.Repeat("x", 10<<10)
	for i := range 1_000 {
		p := saying(text)
		p.Ref.Session, p.GenerationID = fmt.Sprint(i%50), fmt.Sprint(i)
		r.Publish(p)
		p.Ref = session
		r.Publish(p)
	}
	sent := 0
	for _, o := range r.Take() {
		sent += len(o.Text)
	}
	require.Greater(t, sent, maxOutgoing/2)
	require.Less(t, sent, maxOutgoing*3/2)
	require.Empty(t, r.Take())
	for s := range r.local.sessions[session].subscribers {
		s.mu.Lock()
		require.Less(t, s.waiting.bytes, maxBytes+len(text)+overhead)
		s.mu.Unlock()
	}
	r.Publish(saying("room again"))
	require.Len(t, r.Take(), 1)
}

func TestRelayTellsWhoListens(t *testing.T) {
	j := joined{}
	r := NewRelay(j, 8_000)
	d := DigestOf(ports.Topic{Session: session})
	_, first := r.Subscribe(session)
	_, second := r.Subscribe(session)
	require.Equal(t, joined{d: 1}, j)
	require.Equal(t, []Digest{d}, r.Heard())
	first()
	first()
	require.Equal(t, 1, j[d])
	second()
	require.Zero(t, j[d])
	require.Empty(t, r.Heard())
	r.Publish(saying("x"))
	require.Empty(t, r.Take(), "nobody wants it")
	r.Received(d, []byte(`{}`))
}
