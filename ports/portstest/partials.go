package portstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// TestPartials checks ports.Partials.
func TestPartials(t *testing.T, open func(t *testing.T) ports.Partials) {
	a, b := domain.SessionRef{Tenant: "t1", Session: "s"}, domain.SessionRef{Tenant: "t2", Session: "s"}
	mark := domain.SessionRef{Tenant: "t", Session: "mark"}
	frame := func(ref domain.SessionRef, epoch int64, text string) ports.Partial {
		return ports.Partial{Ref: ref, GenerationID: "g", Run: "r", Attempt: 1, Epoch: epoch, Delta: ports.Delta{Text: text}}
	}
	listen := func(t *testing.T, p ports.Partials, ref domain.SessionRef) <-chan ports.Partial {
		frames, cancel := p.Subscribe(ref)
		t.Cleanup(cancel)
		return frames
	}

	t.Run("in order and complete frames", func(t *testing.T) {
		p := open(t)
		x, y := listen(t, p, a), listen(t, p, a)
		sent := []ports.Partial{
			frame(a, 3, "First "), frame(a, 3, "we \x00\u2028😀"),
			{Ref: a, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 3, Delta: ports.Delta{Thinking: "hm"}},
			frame(a, 3, "again"),
			{Ref: a, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 3, Delta: ports.Delta{Thinking: "hm"}},
			frame(a, 3, "again"),
			{Ref: a, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 3, Delta: ports.Delta{Thinking: "hm"}},
			{Ref: a, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 3, Delta: ports.Delta{ToolCall: &ports.ToolCallPart{Index: 1, Name: "ls", Arguments: `{"p`}}},
			{Ref: a, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 3, Delta: ports.Delta{End: "failed"}},
		}
		for _, f := range sent {
			p.Publish(f)
		}
		for _, frames := range []<-chan ports.Partial{x, y} {
			require.Equal(t, whole(sent), whole(untilEnd(t, frames)))
		}
	})
	t.Run("long ones", func(t *testing.T) {
		p := open(t)
		x := listen(t, p, a)
		text := strings.Repeat("\x00<é😀>", 2_000)
		call := ports.ToolCallPart{Index: 2, Name: "write", Arguments: text}
		sent := []ports.Partial{frame(a, 1, text), end(a)}
		for _, d := range []ports.Delta{{Thinking: text}, {ToolCall: &call}} {
			sent = slices.Insert(sent, len(sent)-1, ports.Partial{Ref: a, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 1, Delta: d})
		}
		for _, f := range sent {
			p.Publish(f)
		}
		require.Equal(t, sent, whole(untilEnd(t, x)))
	})
	t.Run("what waits is joined", func(t *testing.T) {
		p := open(t)
		x := listen(t, p, a)
		var text strings.Builder
		for i := range 2_000 {
			fmt.Fprint(&text, i, " ")
			p.Publish(frame(a, 1, fmt.Sprint(i, " ")))
		}
		p.Publish(end(a))
		require.Equal(t, []ports.Partial{frame(a, 1, text.String()), end(a)}, whole(untilEnd(t, x)), "nobody looked, and nothing is lost")
	})
	t.Run("the end comes through", func(t *testing.T) {
		p := open(t)
		x := listen(t, p, a)
		for i := range 2_000 {
			p.Publish(frame(a, 1, fmt.Sprint(i)))
			p.Publish(ports.Partial{Ref: a, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 1, Delta: ports.Delta{Thinking: "hm"}})
		}
		p.Publish(end(a))
		require.Less(t, len(untilEnd(t, x)), 3_000, "what nobody takes is bounded")
	})
	t.Run("from now on, of one session", func(t *testing.T) {
		p := open(t)
		passed := listen(t, p, mark)
		p.Publish(frame(a, 1, "before"))
		for range 2 { // what is sent together is in no order
			p.Publish(frame(mark, 1, "mark"))
			next(t, passed)
		}
		x, y := listen(t, p, a), listen(t, p, b)
		p.Publish(frame(a, 1, "after"))
		require.Equal(t, "after", next(t, x).Delta.Text)
		none(t, x)
		none(t, y)
	})
	t.Run("lower epochs are dropped", func(t *testing.T) {
		p := open(t)
		x, y := listen(t, p, a), listen(t, p, b)
		p.Publish(frame(a, 4, "old"))
		require.Equal(t, "old", next(t, x).Delta.Text)
		p.Publish(frame(a, 5, "new"))
		require.Equal(t, "new", next(t, x).Delta.Text)
		p.Publish(frame(a, 4, "fenced"))
		p.Publish(frame(a, 5, "goes on"))
		require.Equal(t, "goes on", next(t, x).Delta.Text)
		late := listen(t, p, a)
		p.Publish(frame(a, 4, "fenced"))
		none(t, late)
		none(t, x)
		p.Publish(frame(b, 1, "its own epochs"))
		require.Equal(t, "its own epochs", next(t, y).Delta.Text)
	})
	t.Run("never blocks", func(t *testing.T) {
		p := open(t)
		slow, quick := listen(t, p, a), listen(t, p, a)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 20_000 {
				p.Publish(frame(a, 1, fmt.Sprint(i)))
			}
		}()
		for finished := false; !finished; {
			select {
			case <-quick:
			case <-done:
				finished = true
			case <-time.After(soon):
				require.FailNow(t, "a subscriber that does not read blocks the publisher")
			}
		}
		require.True(t, strings.HasPrefix(next(t, slow).Delta.Text, "0"), "what it can hold is what came first")
	})
	t.Run("cancel", func(t *testing.T) {
		p := open(t)
		stays := listen(t, p, a)
		gone, cancel := p.Subscribe(a)
		cancel()
		cancel()
		p.Publish(frame(a, 1, "x"))
		next(t, stays)
		select {
		case _, ok := <-gone:
			require.True(t, ok, "the channel is not closed")
			require.FailNow(t, "a cancelled subscriber got a frame")
		case <-time.After(never):
		}
	})
}

// Across is the way from one ports.Partials to another one of a second process.
type Across struct {
	From, To ports.Partials

	// Ready waits until From knows that To wants the frames of a session.
	Ready func(t *testing.T, ref domain.SessionRef)

	t *testing.T
}

// TestPartialsAcross checks that what one process publishes reaches the subscribers of another one.
func TestPartialsAcross(t *testing.T, open func(t *testing.T) Across) {
	TestPartials(t, func(t *testing.T) ports.Partials {
		way := open(t)
		way.t = t
		return way
	})
	t.Run("readers on both sides hear it once", func(t *testing.T) {
		way := open(t)
		way.t = t
		ref := domain.SessionRef{Tenant: "t1", Session: "s"}
		here, cancel := way.From.Subscribe(ref)
		defer cancel()
		there, cancelThere := way.Subscribe(ref)
		defer cancelThere()
		sent := []ports.Partial{{Ref: ref, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 1, Delta: ports.Delta{Text: "x"}}, end(ref)}
		for _, f := range sent {
			way.Publish(f)
		}
		require.Equal(t, sent, untilEnd(t, there))
		require.Equal(t, sent, untilEnd(t, here))
		none(t, here)
		none(t, there)
	})
}

// Publish implements ports.Partials.
func (w Across) Publish(p ports.Partial) { w.From.Publish(p) }

// Subscribe implements ports.Partials.
func (w Across) Subscribe(ref domain.SessionRef) (<-chan ports.Partial, func()) {
	frames, cancel := w.To.Subscribe(ref)
	w.Ready(w.t, ref)
	return frames, cancel
}

// TestPartialsFenced checks that frames of a worker that was replaced do not pass the process of the reader, though
// neither the old worker's process knows of the new one. Both ways lead to one process.
func TestPartialsFenced(t *testing.T, old, new Across) {
	ref, mark := domain.SessionRef{Tenant: "t", Session: "s"}, domain.SessionRef{Tenant: "t", Session: "mark"}
	frames, cancel := old.To.Subscribe(ref)
	defer cancel()
	marks, cancelMarks := old.To.Subscribe(mark)
	defer cancelMarks()
	for _, w := range []Across{old, new} {
		w.Ready(t, ref)
		w.Ready(t, mark)
	}
	say := func(to Across, ref domain.SessionRef, epoch int64, text string) {
		to.Publish(ports.Partial{Ref: ref, GenerationID: text, Epoch: epoch, Delta: ports.Delta{Text: text}})
	}
	say(old, ref, 4, "old")
	require.Equal(t, "old", next(t, frames).Delta.Text)
	say(new, ref, 5, "new")
	require.Equal(t, "new", next(t, frames).Delta.Text)
	say(old, ref, 4, "fenced")
	for range 2 { // what is sent together is in no order
		say(old, mark, 1, "mark")
		next(t, marks)
	}
	none(t, frames)
	say(new, ref, 5, "goes on")
	require.Equal(t, "goes on", next(t, frames).Delta.Text)
}

func end(ref domain.SessionRef) ports.Partial {
	return ports.Partial{Ref: ref, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 1, Delta: ports.Delta{End: "failed"}}
}

// untilEnd returns the frames up to and with the end of a generation.
func untilEnd(t *testing.T, frames <-chan ports.Partial) []ports.Partial {
	t.Helper()
	var all []ports.Partial
	for len(all) == 0 || all[len(all)-1].Delta.End == "" {
		all = append(all, next(t, frames))
	}
	return all
}

// whole joins deltas that follow each other and continue the same piece.
func whole(frames []ports.Partial) []ports.Partial {
	var all []ports.Partial
	for _, f := range frames {
		if len(all) == 0 || !goesOn(&all[len(all)-1], f) {
			all = append(all, f)
		}
	}
	return all
}

func goesOn(last *ports.Partial, f ports.Partial) bool {
	a, b := &last.Delta, f.Delta
	switch {
	case last.GenerationID != f.GenerationID || last.Epoch != f.Epoch:
		return false
	case a.Text != "" && b.Text != "":
		a.Text += b.Text
	case a.Thinking != "" && b.Thinking != "":
		a.Thinking += b.Thinking
	case a.ToolCall != nil && b.ToolCall != nil && a.ToolCall.Index == b.ToolCall.Index && b.ToolCall.Name == "":
		a.ToolCall = &ports.ToolCallPart{Index: a.ToolCall.Index, Name: a.ToolCall.Name, Arguments: a.ToolCall.Arguments + b.ToolCall.Arguments}
	default:
		return false
	}
	return true
}

func next(t *testing.T, frames <-chan ports.Partial) ports.Partial {
	t.Helper()
	select {
	case f := <-frames:
		return f
	case <-time.After(soon):
		require.FailNow(t, "no frame came")
		return ports.Partial{}
	}
}

func none(t *testing.T, frames <-chan ports.Partial) {
	t.Helper()
	select {
	case f := <-frames:
		require.FailNow(t, "a frame came", "%+v", f)
	case <-time.After(never):
	}
}
