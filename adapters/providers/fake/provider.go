// Package fake is a provider without a model: deterministic, for tests, demonstrations and the first run without a key.
//
// It answers "echo: " and the text of the user's messages that no answer followed yet, unless a script tells it what to
// do (see Script). It knows neither chance nor a clock; only the delays of a script take time. It counts no tokens.
package fake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Name is the provider's name and that of its only model.
const Name = "fake"

// Config configures a fake provider.
type Config struct {
	Script []byte // the text of a script (see Script) for inputs that bring none; empty means echo
}

// Provider answers by echo or by script.
type Provider struct{ script Script }

var _ ports.Provider = (*Provider)(nil)

// New returns a fake provider. It returns an error when the configured script is malformed.
func New(cfg Config) (*Provider, error) {
	p := &Provider{}
	if len(cfg.Script) > 0 {
		script, err := ParseScript(cfg.Script)
		if err != nil {
			return nil, err
		}
		p.script = script
	}
	return p, nil
}

// Name returns "fake".
func (p *Provider) Name() string { return Name }

// Models returns the one model.
func (p *Provider) Models(context.Context, ports.Confidential) ([]ports.Model, error) {
	return []ports.Model{{ID: Name}}, nil
}

// Generate plays the entry of the script in force that req.Turn.Call names, or echoes; see ports.Provider. A summary says
// how long what it stands for was.
func (p *Provider) Generate(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	if req.Turn.Summary {
		summary := fmt.Sprintf("(summary of %d bytes)", len(unanswered(req.Messages)))
		return play(ctx, Turn{Text: summary, Stop: domain.StopEndTurn}, emit)
	}
	script, err := p.scriptFor(req.Turn.Selection)
	if err != nil {
		return ports.Reply{Model: Name}, &ports.ProviderError{Class: ports.Fatal, Code: "malformed_script", Message: err.Error(), Err: err}
	}
	turn := Turn{Text: "echo: " + unanswered(req.Messages), Stop: domain.StopEndTurn}
	if len(script) > 0 {
		turn = script[min(max(req.Turn.Call, 0), len(script)-1)]
	}
	return play(ctx, turn, emit)
}

// scriptFor returns the script of a selection, else the configured one.
func (p *Provider) scriptFor(selection string) (Script, error) {
	if selection == "" {
		return p.script, nil
	}
	var s struct {
		Script wire.Raw `json:"script"`
	}
	if err := wire.Decode([]byte(selection), &s); err != nil {
		return nil, fmt.Errorf("the selection is not a JSON object: %w", err)
	}
	if wire.IsNull(s.Script) {
		return p.script, nil
	}
	return ParseScript(s.Script)
}

// unanswered returns the text of the last user messages, those that no other message parts.
func unanswered(messages []domain.Message) string {
	end := len(messages)
	for end > 0 && messages[end-1].Role != domain.RoleUser {
		end--
	}
	var texts []string
	for i := end; i > 0 && messages[i-1].Role == domain.RoleUser; i-- {
		texts = append(texts, textOf(messages[i-1].Content))
	}
	slices.Reverse(texts)
	return strings.Join(texts, "\n")
}

func textOf(blocks []domain.Block) string {
	var texts []string
	for _, b := range blocks {
		if b.Type == domain.TextBlock && b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// wait waits for d, or returns the cause of ctx when that ends first.
func wait(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
