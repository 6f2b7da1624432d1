package runner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// K33, 2: a context that the backend refuses is compacted once and presented again with the same inputs, in
// the same attempt, whatever arrived meanwhile.
func TestK33OverflowCompactsOnce(t *testing.T) {
	for name, refusal := range map[string]answer{
		"overflow":                     fault(ports.Overflow, 0),
		"too many bytes":               fault(ports.TooLarge, 0),
		"an error beyond the estimate": invalid(400),
	} {
		t.Run(name, func(t *testing.T) {
			compacting(t, 2900, 0, 2, func(w *world, p *node) {
				w.script(slowly(time.Second, refusal), slowly(20*time.Second, text("S")), text("ok"), text("g1's"))
				w.say("go", fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, thousand))
				time.Sleep(5 * time.Second)
				w.guide("g1")
				w.settled()
				require.Equal(t, []string{
					"assistant [7] error:", "user guide g1", "compaction from 7: S", "assistant [7] end_turn: ok", "finished done turns=2 end_turn",
					"assistant [9] end_turn: g1's", "finished done turns=1 end_turn",
				}, numberless(w.since(7)))
				require.Equal(t, "user t:go | t:"+thousand[:60], texts(w.provider.requests[0])[4])
				require.Equal(t, []string{"user " + head + "S | t:go | t:" + thousand[:60]}, texts(w.provider.requests[2]))
				require.Equal(t, 1, w.provider.summaries())
				require.EqualValues(t, 4, w.ledger()[len(w.ledger())-1].Epoch, "one claim for the turn, one for the guide")
				p.drain(time.Second)
			})
		})
	}
}

// An answer is progress: a refusal after it may be followed by another compaction.
func TestOverflowAfterAnAnswerCompactsAgain(t *testing.T) {
	compacting(t, 20_000, 0, 7, func(w *world, p *node) {
		w.script(fault(ports.Overflow, 0), text("S1"), calls("safe"), fault(ports.Overflow, 0), text("S2"), text("ok"))
		w.say("go")
		w.settled()
		require.Equal(t, []string{
			"user queue go", "assistant [22] error:", "compaction from 19: S1", "assistant [22] tool_use: safe{}", "result safe {}",
			"assistant [22] error:", "compaction from 22: S2", "assistant [22] end_turn: ok", "finished done turns=4 end_turn",
		}, numberless(w.since(21)))
		require.Equal(t, []string{"user " + head + "S2 | t:go", "assistant t:", "tool t:safe {}"}, texts(w.provider.requests[5]))
		p.drain(time.Second)
	})
}

// invalid is a refusal that no pattern recognises.
func invalid(status int) answer {
	return func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
		return ports.Reply{}, &ports.ProviderError{Class: ports.Fatal, Status: status, Message: "das ist zu viel"}
	}
}

// K33, 2: when that does not help, or there is nothing to compact, the run fails for good and says why.
func TestK33OverflowWithoutProgress(t *testing.T) {
	for name, c := range map[string]struct {
		turns, requests int
		refusal         answer
		code            string
	}{
		"after a compaction":   {7, 3, fault(ports.Overflow, 0), "context_overflow: "},
		"nothing to compact":   {0, 1, fault(ports.Overflow, 0), "context_overflow: "},
		"bytes, likewise":      {0, 1, fault(ports.TooLarge, 0), "request_too_large: "},
		"invalid, and small":   {2, 1, invalid(400), "provider: das ist zu viel"},
		"forbidden, and large": {2, 1, invalid(403), "provider: das ist zu viel"},
	} {
		t.Run(name, func(t *testing.T) {
			window := 2000
			if name == "invalid, and small" || name == "after a compaction" {
				window = 20_000 // a second compaction would find something to summarise
			}
			compacting(t, window, 0, 0, func(w *world, p *node) {
				w.script(text(thousand))
				for i := range c.turns {
					w.say(fmt.Sprint("turn ", i))
					w.settled()
				}
				w.provider.requests = nil
				w.script(func(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
					if req.Turn.Summary {
						return text("S")(ctx, req, emit)
					}
					return c.refusal(ctx, req, emit)
				})
				w.say("go")
				w.settled()
				run := w.runs()[0]
				require.Equal(t, domain.StatusFailed, run.Status)
				require.Equal(t, domain.ReasonPermanent, run.Reason)
				require.True(t, strings.HasPrefix(run.Error, c.code), run.Error)
				require.Len(t, w.provider.requests, c.requests)
				p.drain(time.Second)
			})
		})
	}
}

// K33, 3: a rate limit compacts nothing, whatever its words.
func TestK33RateLimitIsNoOverflow(t *testing.T) {
	compacting(t, 4000, 0.8, 3, func(w *world, p *node) {
		w.script(func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
			return ports.Reply{}, &ports.ProviderError{Class: ports.Retryable, Status: 429, Message: "limit of tokens per minute: the maximum context length"}
		}, text("ok"))
		w.say("go")
		w.settled()
		require.Zero(t, w.provider.summaries())
		require.Contains(t, w.text(), "end_turn: ok")
		p.drain(time.Second)
	})
}

// K33, 2: a backend that counts more than its window and answers all the same is compacted for now and then,
// not at each request.
func TestK33UsageBeyondTheWindow(t *testing.T) {
	compacting(t, 20_000, 0.8, 0, func(w *world, p *node) {
		w.script(func(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
			if req.Turn.Summary {
				return text("S")(ctx, req, emit)
			}
			r, err := text(thousand)(ctx, req, emit)
			r.Usage = &domain.Usage{Input: 1_000_000, Output: 1}
			return r, err
		})
		for i := range 40 {
			w.say(fmt.Sprint("turn ", i))
			w.settled()
		}
		require.Equal(t, 40, strings.Count(w.text(), "finished done"))
		n := w.provider.summaries()
		require.Greater(t, n, 2, "it counts for something")
		require.Less(t, n, 15)
		p.drain(time.Second)
	})
}

// K33, 2, and 413: old images leave the request first, the oldest first; then the context is compacted.
func TestImagesLeaveBeforeACompaction(t *testing.T) {
	image := `"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("A", 4000) + `"}]`
	compacting(t, 100_000, 0.8, 0, func(w *world, p *node) {
		for i := range 2 {
			w.say(fmt.Sprint("picture ", i), image)
			w.settled()
		}
		w.provider.requests = nil
		w.script(fault(ports.TooLarge, 0), fault(ports.TooLarge, 0), fault(ports.TooLarge, 0), text("S"), text("ok"))
		w.say("go", image)
		w.settled()
		require.Equal(t, []int{3, 2, 1, 0, 1}, imagesOf(w.provider.requests), "the summary is asked for by text, and the input is shown in full")
		require.Contains(t, texts(w.provider.requests[2])[0], "t:picture 0 | t:(an image was left out)")
		require.Equal(t, []string{
			"user queue go", "assistant [7] error:", "assistant [7] error:", "assistant [7] error:", "compaction from 7: S",
			"assistant [7] end_turn: ok", "finished done turns=4 end_turn",
		}, numberless(w.since(6)))
		p.drain(time.Second)
	})
}

// Images that take more than a request may carry leave it before it is made, the oldest first, in a process that takes over
// too; the newest input's stay.
func TestOldImagesLeaveForTheirBytes(t *testing.T) {
	image := `"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("A", 4000) + `"}]`
	large := strings.ReplaceAll(image, "AAAA", "AAAAAAAAAAAA")
	budget := func(c *runner.Config) { c.ImageBytes = 10_000 }
	play(t, func(w *world) {
		w.script(text("ok"))
		first := w.start(budget)
		for i := range 5 {
			w.say(fmt.Sprint("picture ", i), image)
			w.settled()
		}
		first.drain(time.Second)
		second := w.start(budget)
		for i, content := range []string{image, large} {
			w.say(fmt.Sprint("go ", i), content)
			w.settled()
		}
		require.Equal(t, []int{1, 2, 2, 2, 2, 2, 1}, imagesOf(w.provider.requests))
		require.Equal(t, "user t:picture 0 | t:(an image was left out)", texts(w.provider.requests[2])[0])
		require.NotContains(t, w.text(), "error")
		second.drain(time.Second)
	})
}

// A turn that outgrows the window by itself goes on: the outputs that the model has seen are shortened.
func TestLongTurnSheds(t *testing.T) {
	compacting(t, 100_000, 0.8, 0, func(w *world, p *node) {
		args := `safe{"pad":"` + strings.Repeat("x", 3000) + `"}`
		w.script(calls(args), calls(args), fault(ports.Overflow, 0), text("ok"))
		w.say("go")
		w.settled()
		require.Contains(t, w.text(), "assistant [1] end_turn: ok")
		last := w.provider.lately()
		require.Less(t, len(last[2].Content[0].Text), 500)
		require.Greater(t, len(last[4].Content[0].Text), 3000, "the model has not seen it yet")
		p.drain(time.Second)
	})
}

// imagesOf counts the images that each request shows.
func imagesOf(requests []ports.ModelRequest) (counts []int) {
	for _, r := range requests {
		n := 0
		for _, m := range r.Messages {
			for _, b := range m.Content {
				if b.Type == domain.ImageBlock {
					n++
				}
			}
		}
		counts = append(counts, n)
	}
	return counts
}

// An image that the backend refuses does not end the session: the same inputs are presented without those that no backend
// has taken yet, then without any; the model is told, and later turns go on.
func TestRefusedImages(t *testing.T) {
	image := `"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]`
	compacting(t, 0, 0.8, 0, func(w *world, p *node) {
		w.say("one", image)
		w.settled()
		w.provider.requests = nil
		w.script(fault(ports.BadImage, 0), text("sorry"))
		w.say("two", image)
		w.settled()
		require.Equal(t, []int{2, 1}, imagesOf(w.provider.requests))
		require.Contains(t, texts(w.provider.requests[1])[2], "t:two | t:(an image was left out: the model's backend refused to take ")
		require.Equal(t, []string{
			"user queue two", "assistant [4] error:", "assistant [4] end_turn: sorry", "finished done turns=2 end_turn",
		}, numberless(w.since(3)))

		w.provider.requests = nil
		w.script(fault(ports.BadImage, 0), text("blind"))
		w.say("three")
		w.settled()
		w.script(fault(ports.BadImage, 0))
		w.say("four")
		w.settled()
		require.Equal(t, []int{1, 0, 0}, imagesOf(w.provider.requests))
		require.Contains(t, w.text(), "finished failed turns=1 error")
		run := w.runs()[0]
		require.Equal(t, domain.ReasonPermanent, run.Reason)
		require.Contains(t, run.Error, "image_refused: nothing more can leave the context: ")
		p.drain(time.Second)
	})
}

// An image that one model refused is shown to another one that the conversation goes on with: it may take it.
func TestImagesRefusedByAnotherModel(t *testing.T) {
	image := `"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]`
	compacting(t, 0, 0.8, 0, func(w *world, p *node) {
		w.script(fault(ports.BadImage, 0), text("blind"), text("still blind"), text("I see"), text("and still"))
		for i, model := range []string{"blind", "blind", "sees", "sees"} {
			more := []string{`"selection":{"model":"` + model + `"}`}
			if i == 0 {
				more = append(more, image)
			}
			w.say(fmt.Sprint("turn ", i), more...)
			w.settled()
		}
		require.Equal(t, []int{1, 0, 0, 1, 1}, imagesOf(w.provider.requests))
		p.drain(time.Second)
	})
}
