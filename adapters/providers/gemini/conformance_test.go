package gemini_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/gemini"
	"github.com/keel-agent/keel/adapters/providers/gemini/geminitest"
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
	s := geminitest.Start(t)
	p := newProvider(t, gemini.Config{BaseURL: s.URL(), Model: geminitest.Model})
	s.Push(answerOf(scene))
	return p, ports.ModelRequest{Messages: []domain.Message{wiretest.User(wiretest.Text("hi"))}}
}

func answerOf(scene portstest.ProviderScene) geminitest.Response {
	var chunks []string
	if scene.Thinking != "" {
		chunks = append(chunks, geminitest.Chunk(geminitest.Thinking(scene.Thinking)))
	}
	for i, piece := range scene.Text {
		if i == 0 || scene.End != portstest.EndSilent {
			chunks = append(chunks, geminitest.Chunk(geminitest.Text(piece)))
		}
	}
	var calls []string
	for _, c := range scene.Calls {
		calls = append(calls, geminitest.Call(c.ID, c.Name, c.Arguments))
	}
	if len(calls) > 0 {
		chunks = append(chunks, geminitest.Chunk(calls...))
	}
	switch scene.End {
	case portstest.EndFault:
		fault := geminitest.Fault(scene.Fault.Status, scene.Fault.Message)
		if len(chunks) > 0 {
			return geminitest.Stream(append(chunks, fault)...)
		}
		r := geminitest.Error(scene.Fault.Status, fault)
		if scene.Fault.RetryAfter > 0 {
			r.Header["Retry-After"] = strconv.Itoa(scene.Fault.RetryAfter)
		}
		return r
	case portstest.EndCut:
		return geminitest.Stream(chunks...)
	case portstest.EndSilent:
		return geminitest.Stream(chunks...).Ending(geminitest.Hang)
	}
	reason := map[domain.StopReason]string{domain.StopLength: "MAX_TOKENS", domain.StopRefusal: "SAFETY"}[scene.Stop]
	if reason == "" {
		reason = "STOP"
	}
	return geminitest.Stream(append(chunks, geminitest.Last(reason))...)
}

func newProvider(t *testing.T, cfg gemini.Config) *gemini.Provider {
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = wiretest.Client(t)
	}
	p, err := gemini.New(cfg)
	require.NoError(t, err)
	return p
}
