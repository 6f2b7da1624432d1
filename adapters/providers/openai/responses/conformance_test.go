package responses_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/openai/responses"
	"github.com/keel-agent/keel/adapters/providers/openai/responses/responsestest"
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
	s := responsestest.Start(t)
	p := newProvider(t, openai.Config{BaseURL: s.URL(), Model: responsestest.Model})
	s.Push(answerOf(scene))
	return p, ports.ModelRequest{Messages: []domain.Message{wiretest.User(wiretest.Text("hi"))}}
}

func answerOf(scene portstest.ProviderScene) responsestest.Response {
	items := itemsOf(scene)
	switch {
	case scene.End == portstest.EndFault && len(items) == 0:
		r := responsestest.Error(scene.Fault.Status, responsestest.Fault(strconv.Itoa(scene.Fault.Status), scene.Fault.Message))
		if scene.Fault.RetryAfter > 0 {
			r.Header["Retry-After"] = strconv.Itoa(scene.Fault.RetryAfter)
		}
		return r
	case scene.End == portstest.EndFault:
		r := responsestest.Begun(items...)
		r.Steps = append(r.Steps, responsestest.Step{Write: responsestest.Failed(strconv.Itoa(scene.Fault.Status), scene.Fault.Message)})
		return r
	case scene.End == portstest.EndCut:
		return responsestest.Begun(items...)
	case scene.End == portstest.EndSilent:
		return responsestest.Begun(items...).Ending(responsestest.Hang)
	case scene.Stop == domain.StopLength:
		return responsestest.Incomplete("max_output_tokens", items...)
	case scene.Stop == domain.StopRefusal:
		return responsestest.Incomplete("content_filter", items...)
	}
	return responsestest.Completed(items...)
}

func itemsOf(scene portstest.ProviderScene) (items []responsestest.Item) {
	if scene.Thinking != "" {
		items = append(items, responsestest.Plain("rs_0", scene.Thinking))
	}
	if scene.End == portstest.EndSilent && len(scene.Text) > 0 {
		scene.Text = scene.Text[:1]
	}
	if len(scene.Text) > 0 {
		items = append(items, responsestest.Text(scene.Text...))
	}
	for _, c := range scene.Calls {
		half := len(c.Arguments) / 2
		items = append(items, responsestest.Call(c.ID, c.Name, c.Arguments[:half], c.Arguments[half:]))
	}
	return items
}

func newProvider(t *testing.T, cfg openai.Config) *responses.Provider {
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = wiretest.Client(t)
	}
	p, err := responses.New(cfg)
	require.NoError(t, err)
	return p
}
