package openai

import (
	"context"
	"net/http"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// Generate asks for one answer; see ports.Provider.
func (p *Provider) Generate(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	return p.Client.Generate(ctx, req, &generation{p: p, emit: emit})
}

// generation is one answer that is asked for; see wire.Generation.
type generation struct {
	p    *Provider
	emit func(ports.Delta)
	sent *request
}

func (g *generation) Request(req ports.ModelRequest) (wire.Request, error) {
	if err := wire.CheckToolCount(len(req.Tools), maxTools); g.p.own && err != nil {
		return wire.Request{}, err
	}
	g.sent = g.p.build(req)
	answer := &decoder{Draft: wire.Draft{Emit: g.emit, Names: wire.ToolNames(req.Tools, maxName)}}
	return wire.Request{Path: "/chat/completions", Body: g.sent, Answer: answer}, nil
}

func (g *generation) Refused(status int, body []byte) bool {
	return (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) && g.p.learn(g.sent, body)
}
