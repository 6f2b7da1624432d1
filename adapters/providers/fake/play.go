package fake

import (
	"context"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// play gives the answer t.
func play(ctx context.Context, t Turn, emit func(ports.Delta)) (ports.Reply, error) {
	reply := ports.Reply{Model: Name}
	if err := wait(ctx, t.Delay); err != nil {
		return reply, err
	}
	if t.Thinking != "" {
		reply.Content = append(reply.Content, domain.Block{Type: domain.ThinkingBlock})
		for _, piece := range words(t.Thinking) {
			reply.Content[0].Thinking += piece
			emit(ports.Delta{Thinking: piece})
		}
	}
	if t.Text != "" {
		at := len(reply.Content)
		reply.Content = append(reply.Content, domain.Block{Type: domain.TextBlock})
		for i, piece := range words(t.Text) {
			if i > 0 {
				if err := wait(ctx, t.Chunk); err != nil {
					return reply, err
				}
			}
			reply.Content[at].Text += piece
			emit(ports.Delta{Text: piece})
		}
	}
	cut := t.Stop == domain.StopLength || t.Stop == domain.StopRefusal || t.Cut || t.Fault != nil
	for i, c := range t.Calls {
		emit(ports.Delta{ToolCall: &ports.ToolCallPart{Index: i, Name: c.Name, Arguments: c.Arguments}})
		reply.Content = append(reply.Content, callBlock(c, cut))
	}
	return end(ctx, t, reply)
}

func callBlock(c Call, cut bool) domain.Block {
	b := domain.Block{Type: domain.CallBlock, Name: c.Name, ProviderID: c.ID}
	if cut {
		b.Arguments, b.RawArguments = wire.CutArguments(c.Arguments)
	} else {
		b.Arguments, b.RawArguments = wire.FinishArguments(c.Arguments)
	}
	return b
}

func end(ctx context.Context, t Turn, reply ports.Reply) (ports.Reply, error) {
	switch {
	case ctx.Err() != nil:
		return reply, context.Cause(ctx)
	case t.Fault != nil:
		return reply, t.Fault.Error()
	case t.Cut:
		return reply, wire.Cut(nil)
	}
	reply.StopReason = t.Stop
	return wire.Complete(reply)
}

// words cuts s behind each space, so that the pieces join to s.
func words(s string) []string {
	pieces := strings.SplitAfter(s, " ")
	if n := len(pieces) - 1; pieces[n] == "" {
		return pieces[:n]
	}
	return pieces
}
