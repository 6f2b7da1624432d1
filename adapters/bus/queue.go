package bus

import (
	"slices"

	"github.com/keel-agent/keel/ports"
)

const (
	maxFrames = 64       // that wait in one queue
	maxBytes  = 64 << 10 // that wait in one queue before further frames are dropped
	maxJoined = 4 << 10  // of a frame that others were joined to
)

// queue holds the frames of one session that wait. Deltas that continue the last one are joined to it, and what comes
// when the queue is full is dropped, except the end of a generation: that drops the generation's own frames.
type queue struct {
	frames []ports.Partial
	bytes  int
}

func (q *queue) add(p ports.Partial) {
	if last := len(q.frames) - 1; last >= 0 && size(q.frames[last])+size(p) <= maxJoined {
		if joined, ok := join(q.frames[last], p); ok {
			q.bytes += size(joined) - size(q.frames[last])
			q.frames[last] = joined
			return
		}
	}
	if q.full() {
		if p.Delta.End == "" {
			return
		}
		q.drop(func(f ports.Partial) bool { return f.GenerationID == p.GenerationID })
	}
	for q.full() { // of other generations alone
		q.take()
	}
	q.frames = append(q.frames, p)
	q.bytes += size(p)
}

func (q *queue) full() bool { return len(q.frames) >= maxFrames || q.bytes >= maxBytes }

func (q *queue) drop(which func(ports.Partial) bool) {
	q.frames = slices.DeleteFunc(q.frames, which)
	q.bytes = 0
	for _, f := range q.frames {
		q.bytes += size(f)
	}
}

// take removes the first frame.
func (q *queue) take() (p ports.Partial, ok bool) {
	if len(q.frames) == 0 {
		return p, false
	}
	p = q.frames[0]
	q.frames = slices.Delete(q.frames, 0, 1)
	q.bytes -= size(p)
	return p, true
}

// overhead is what a frame takes beside its texts, about.
const overhead = 128

func size(p ports.Partial) int {
	d := p.Delta
	n := overhead + len(d.Text) + len(d.Thinking) + len(d.End)
	if d.ToolCall != nil {
		n += len(d.ToolCall.Name) + len(d.ToolCall.Arguments)
	}
	return n
}

// join returns last with the delta of next behind its own, when next goes on with the same piece.
func join(last, next ports.Partial) (joined ports.Partial, ok bool) {
	a, b := last.Delta, next.Delta
	switch {
	case last.GenerationID != next.GenerationID || last.Attempt != next.Attempt || last.Epoch != next.Epoch || last.Run != next.Run:
		return last, false
	case a.Text != "" && b.Text != "":
		last.Delta.Text += b.Text
	case a.Thinking != "" && b.Thinking != "":
		last.Delta.Thinking += b.Thinking
	case a.ToolCall != nil && b.ToolCall != nil && a.ToolCall.Index == b.ToolCall.Index && b.ToolCall.Name == "":
		call := *a.ToolCall
		call.Arguments += b.ToolCall.Arguments
		last.Delta.ToolCall = &call
	default:
		return last, false
	}
	return last, true
}
