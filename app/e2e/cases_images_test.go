package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/anthropic/anthropictest"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
)

// TestImagesDoNotPoisonASession: a cut image and one that is too large are told in words, an image that the backend refuses
// all the same is left out and the input presented again, and the session goes on, after a restart too. The backend
// refuses what the real one would.
func TestImagesDoNotPoisonASession(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		a := anthropictest.Start(t)
		env := []string{"ANTHROPIC_BASE_URL=" + a.URL(), "ANTHROPIC_API_KEY=sk-ant-test", "ANTHROPIC_MODEL=" + anthropictest.Model}
		refusal := anthropictest.Error(http.StatusBadRequest, anthropictest.Fault("invalid_request_error", "Could not process image"))
		answer := func(s string) anthropictest.Response { return anthropictest.Stream("end_turn", anthropictest.Text(s)) }
		image := func(data string) string { return `{"type":"image","mimeType":"image/png","data":"` + data + `"}` }

		p := serve(t, store, env)
		p.create(`{"id":"s1"}`)
		a.Push(answer("One pixel."))
		p.input("s1", `{"text":"look","requestId":"r1","content":[`+image(wiretest.PNG)+`,`+image(wiretest.PNG[:len(wiretest.PNG)-24])+`,`+image(wiretest.LargePNG(9000, 1))+`]}`)
		p.finished("s1", 1)
		a.Push(refusal, answer("I see nothing."))
		p.input("s1", `{"text":"and this?","requestId":"r2","content":[`+image(wiretest.LargePNG(3, 3))+`]}`)
		require.Contains(t, story(t, p.finished("s1", 2)), "[4] error: \n[4] end_turn: I see nothing.")
		if store != "memory:" {
			p.stop()
			p = serve(t, store, env)
		}
		a.Push(refusal, answer("Still here."))
		p.input("s1", `{"text":"are you there?","requestId":"r3"}`)
		require.Contains(t, story(t, p.finished("s1", 3)), "end_turn: Still here.")
		p.stop()

		requests := a.Requests()
		images := func(n int) int { return strings.Count(string(requests[n].Body), `"media_type"`) }
		require.Equal(t, []int{1, 2, 1}, []int{images(0), images(1), images(2)})
		require.Contains(t, string(requests[0].Body), "(an image whose data is damaged)")
		require.Contains(t, string(requests[0].Body), "(an image of 9000×1 pixels was left out: this backend takes at most 8000 a side)")
		require.Contains(t, string(requests[2].Body), "(an image was left out: the model's backend refused to take it)")
		require.Zero(t, images(len(requests)-1))
		require.Zero(t, a.Pending())
	})
}
