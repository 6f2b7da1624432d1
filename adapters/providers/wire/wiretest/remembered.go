package wiretest

import (
	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// Remembered returns n for bodies that mostly come to the same events: what a decoder said to a sequence of calls is kept, and
// said again where the same sequence comes. A decoder is a function of its calls; so however often a body is cut, it is read
// anew each time, and decoded once. What it returns is for one goroutine.
func (n NewDecoder) Remembered() NewDecoder {
	root := &moment{}
	return func(emit func(ports.Delta)) wire.Decoder { return &remembered{n: n, at: root, emit: emit} }
}

// call is one of a decoder's methods and what it was given.
type call struct {
	method string
	event  wire.Event
	text   string // the body, or the model that was asked for
}

// moment is a decoder after a sequence of calls: what it returned to the last one, and showed meanwhile.
type moment struct {
	next map[call]*moment

	deltas   []ports.Delta
	life     wire.Life
	complete bool
	reply    ports.Reply
	err      error
}

// remembered is a decoder that makes one of its wire only for calls which none was given before.
type remembered struct {
	n     NewDecoder
	emit  func(ports.Delta)
	calls []call
	at    *moment
}

func (r *remembered) do(c call) *moment {
	r.calls = append(r.calls, c)
	next := r.at.next[c]
	if next == nil {
		next = r.play()
		if r.at.next == nil {
			r.at.next = map[call]*moment{}
		}
		r.at.next[c] = next
	}
	for _, d := range next.deltas {
		r.emit(d)
	}
	r.at = next
	return next
}

// play gives all calls to a new decoder.
func (r *remembered) play() *moment {
	var m moment
	d := r.n(func(d ports.Delta) { m.deltas = append(m.deltas, d) })
	for _, c := range r.calls {
		m = moment{}
		switch c.method {
		case "Event":
			m.life, m.err = d.Event(c.event)
		case "Whole":
			m.err = d.Whole([]byte(c.text))
		case "Complete":
			m.complete = d.Complete()
		case "Reply":
			m.reply, m.err = d.Reply(c.text)
		case "Partial":
			m.reply = d.Partial(c.text)
		}
	}
	return &m
}

func (r *remembered) Event(e wire.Event) (wire.Life, error) {
	m := r.do(call{method: "Event", event: e})
	return m.life, m.err
}

func (r *remembered) Whole(body []byte) error {
	return r.do(call{method: "Whole", text: string(body)}).err
}

func (r *remembered) Complete() bool { return r.do(call{method: "Complete"}).complete }

func (r *remembered) Reply(asked string) (ports.Reply, error) {
	m := r.do(call{method: "Reply", text: asked})
	return m.reply, m.err
}

func (r *remembered) Partial(asked string) ports.Reply {
	return r.do(call{method: "Partial", text: asked}).reply
}
