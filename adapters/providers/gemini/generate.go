package gemini

import (
	"context"
	"net/http"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// Generate asks for one answer; see ports.Provider.
func (p *Provider) Generate(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	req.Model = plainModel(req.Model)
	g := &generation{p: p, emit: emit}
	reply, err := p.Client.Generate(ctx, req, g)
	if g.answer != nil {
		p.remember(g.asked.Model, g.answer.Model, err)
	}
	return reply, err
}

// generation is one answer that is asked for; see wire.Generation.
type generation struct {
	p       *Provider
	emit    func(ports.Delta)
	history thoughts
	asked   ports.ModelRequest
	sent    *request
	answer  *decoder
}

func (g *generation) Request(req ports.ModelRequest) (wire.Request, error) {
	r, err := g.p.build(req, g.history)
	g.asked, g.sent = req, r
	g.answer = &decoder{Draft: wire.Draft{Emit: g.emit, Names: toolNames(req.Tools)}}
	return wire.Request{Path: modelPath(req.Model), Body: r, Answer: g.answer}, err
}

func (g *generation) Refused(status int, body []byte) bool {
	return status == http.StatusBadRequest && (g.p.learn(g.asked, g.sent, body) || g.sent.replays() && g.history.refused(body))
}
