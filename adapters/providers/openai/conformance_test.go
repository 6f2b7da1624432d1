package openai_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai"
	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
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
	s := openaitest.Start(t)
	p := newProvider(t, openai.Config{BaseURL: s.URL(), Model: "test-model"})
	s.Push(answerOf(scene))
	return p, ports.ModelRequest{Messages: []domain.Message{wiretest.User(wiretest.Text("hi"))}}
}

func answerOf(scene portstest.ProviderScene) openaitest.Response {
	var chunks []string
	if scene.Thinking != "" {
		chunks = append(chunks, openaitest.Thinking(scene.Thinking))
	}
	for i, piece := range scene.Text {
		if i == 0 || scene.End != portstest.EndSilent {
			chunks = append(chunks, openaitest.Text(piece))
		}
	}
	for i, c := range scene.Calls {
		chunks = append(chunks, openaitest.CallHead(i, c.ID, c.Name))
	}
	for i, c := range scene.Calls {
		half := len(c.Arguments) / 2
		chunks = append(chunks, openaitest.CallArguments(i, c.Arguments[:half]), openaitest.CallArguments(i, c.Arguments[half:]))
	}
	switch scene.End {
	case portstest.EndFault:
		if len(chunks) == 0 {
			r := openaitest.Error(scene.Fault.Status, openaitest.Fault(scene.Fault.Message, ""))
			if scene.Fault.RetryAfter > 0 {
				r.Header["Retry-After"] = strconv.Itoa(scene.Fault.RetryAfter)
			}
			return r
		}
		return openaitest.Stream(append(chunks, fmt.Sprintf(`{"error":{"message":%q,"code":%d}}`, scene.Fault.Message, scene.Fault.Status))...)
	case portstest.EndCut:
		return openaitest.Events(chunks...)
	case portstest.EndSilent:
		return openaitest.Events(chunks...).Ending(openaitest.Hang)
	}
	reason := map[domain.StopReason]string{domain.StopLength: "length", domain.StopRefusal: "content_filter"}[scene.Stop]
	if reason == "" {
		reason = "stop"
	}
	return openaitest.Stream(append(chunks, openaitest.Finish(reason), openaitest.Usage(3, 5))...)
}

func newProvider(t *testing.T, cfg openai.Config) *openai.Provider {
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = wiretest.Client(t)
	}
	p, err := openai.New(cfg)
	require.NoError(t, err)
	return p
}
