package anthropic_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic"
	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

func TestConformance(t *testing.T) {
	portstest.TestProvider(t, portstest.ProviderHarness{Play: play})
}

// play turns a scene into what a backend of this wire sends.
func play(t *testing.T, scene portstest.ProviderScene) (ports.Provider, ports.ModelRequest) {
	s := anthropictest.Start(t)
	p := newProvider(t, anthropic.Config{BaseURL: s.URL(), Model: anthropictest.Model})
	s.Push(answerOf(scene))
	return p, ports.ModelRequest{Messages: []domain.Message{wiretest.User(wiretest.Text("hi"))}}
}

func answerOf(scene portstest.ProviderScene) anthropictest.Response {
	var blocks []anthropictest.Block
	if scene.Thinking != "" {
		blocks = append(blocks, anthropictest.Unsigned(scene.Thinking))
	}
	if scene.End == portstest.EndSilent && len(scene.Text) > 0 {
		scene.Text = scene.Text[:1]
	}
	if len(scene.Text) > 0 {
		blocks = append(blocks, anthropictest.Text(scene.Text...))
	}
	for _, c := range scene.Calls {
		half := len(c.Arguments) / 2
		blocks = append(blocks, anthropictest.Call(c.ID, c.Name, c.Arguments[:half], c.Arguments[half:]))
	}
	switch scene.End {
	case portstest.EndFault:
		body := anthropictest.Fault(anthropictest.FaultOf(scene.Fault.Status), scene.Fault.Message)
		if len(blocks) == 0 {
			r := anthropictest.Error(scene.Fault.Status, body)
			if scene.Fault.RetryAfter > 0 {
				r.Header["Retry-After"] = strconv.Itoa(scene.Fault.RetryAfter)
			}
			return r
		}
		r := anthropictest.Begun(blocks...)
		r.Steps = append(r.Steps, anthropictest.Step{Write: anthropictest.Event(body)})
		return r
	case portstest.EndCut:
		return anthropictest.Begun(blocks...)
	case portstest.EndSilent:
		return anthropictest.Begun(blocks...).Ending(anthropictest.Hang)
	}
	return anthropictest.Stream(stopOf(scene), blocks...)
}

func stopOf(scene portstest.ProviderScene) string {
	switch {
	case scene.Stop == domain.StopLength:
		return "max_tokens"
	case scene.Stop == domain.StopRefusal:
		return "refusal"
	case len(scene.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func newProvider(t *testing.T, cfg anthropic.Config) *anthropic.Provider {
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = wiretest.Client(t)
	}
	p, err := anthropic.New(cfg)
	require.NoError(t, err)
	return p
}
