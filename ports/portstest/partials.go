package portstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// TestPartials checks ports.Partials.
func TestPartials(t *testing.T, open func(t *testing.T) ports.Partials) {
	a, b := domain.SessionRef{Tenant: "t1", Session: "s"}, domain.SessionRef{Tenant: "t2", Session: "s"}
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
			{Ref: a, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 3, Delta: ports.Delta{ToolCall: &ports.ToolCallPart{Index: 1, Name: "ls", Arguments: `{"p`}}},
			{Ref: a, GenerationID: "g", Run: "r", Attempt: 1, Epoch: 3, Delta: ports.Delta{End: "failed"}},
		}
		for _, f := range sent {
			p.Publish(f)
		}
		for _, frames := range []<-chan ports.Partial{x, y} {
			for _, want := range sent {
				require.Equal(t, want, next(t, frames))
			}
		}
	})
	t.Run("from now on, of one session", func(t *testing.T) {
		p := open(t)
		p.Publish(frame(a, 1, "before"))
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
		p.Publish(frame(a, 4, "fenced"))
		p.Publish(frame(a, 5, "goes on"))
		require.Equal(t, "new", next(t, x).Delta.Text)
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
		require.Equal(t, "0", next(t, slow).Delta.Text, "what it can hold is what came first")
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
