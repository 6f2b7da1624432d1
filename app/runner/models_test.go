package runner_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/models"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// offers gives the tenant a catalogue, and returns it to change it.
func (w *world) offers(document string) *models.Catalogues {
	w.t.Helper()
	c := models.New(models.Config{Settings: w.store.Settings(), Providers: []ports.Provider{w.provider}})
	_, err := c.Put(context.Background(), w.ref.Tenant, payload(w.t, document), ports.AnyRevision)
	require.NoError(w.t, err)
	w.models = c
	return c
}

// counting gives an answer usage.
func counting(a answer, usage domain.Usage) answer {
	return func(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
		r, err := a(ctx, req, emit)
		r.Usage = &usage
		return r, err
	}
}

// costs returns what each event says that something cost.
func costs(t *testing.T, events []domain.Event) (found []string) {
	t.Helper()
	for _, e := range events {
		var p struct {
			Cost  *domain.Cost
			Costs domain.Costs
		}
		require.NoError(t, json.Unmarshal(e.Payload.Bytes(), &p))
		if p.Cost != nil {
			found = append(found, string(e.Kind)+" "+string(p.Cost.Amount)+" "+p.Cost.Currency)
		}
		for _, c := range p.Costs {
			found = append(found, string(e.Kind)+" "+string(c.Amount)+" "+c.Currency)
		}
	}
	return found
}

func TestCatalogueDrivesTheRequest(t *testing.T) {
	play(t, func(w *world) {
		w.offers(`{"models":[{"id":"deep","model":"backend-name","maxOutput":500,"modalities":["text"],
			"thinking":["low","high"],"thinkingValues":{"high":"xhigh"}}],"defaults":{"model":"deep","thinking":"low","temperature":0.25}}`)
		w.script(text("ok"))
		w.start()
		w.say("one", `"content":[{"type":"image","mimeType":"image/png","data":"AA=="}]`)
		w.settled()
		w.say("two", `"selection":{"thinking":"high","maxTokens":9,"temperature":1}`)
		w.settled()
		first, second := w.provider.requests[0], w.provider.requests[1]
		warm, hot := 0.25, 1.0
		require.Equal(t, "backend-name", first.Model)
		require.Equal(t, ports.Options{Temperature: &warm, MaxTokens: 500, Thinking: "low"}, first.Options)
		require.Equal(t, ports.Options{Temperature: &hot, MaxTokens: 9, Thinking: "xhigh"}, second.Options)
		for _, m := range second.Messages {
			for _, b := range m.Content {
				require.NotEqual(t, domain.ImageBlock, b.Type)
			}
		}
		require.Contains(t, first.Messages[0].Content[1].Text, "image was left out")
		require.Contains(t, w.ledger()[0].Payload.String(), `"AA=="`, "the ledger keeps the image")
	})
}

func TestCostsStandInTheLedger(t *testing.T) {
	play(t, func(w *world) {
		c := w.offers(`{"models":[{"id":"m","prices":{"currency":"USD","input":1,"output":"2.5"}}],"defaults":{"model":"m"}}`)
		used := domain.Usage{Input: 1000, Output: 10}
		w.script(counting(calls("safe"), used), counting(fault(ports.Retryable, 0), used), counting(text("ok"), used))
		w.start()
		w.say("go")
		events := w.settled()
		require.Equal(t, []string{
			"assistant.message 0.001025 USD", "assistant.message 0.001025 USD", "run.finished 0.00205 USD", // the failed one was paid for too
			"assistant.message 0.001025 USD", "run.finished 0.001025 USD",
		}, costs(t, events))

		_, err := c.Put(context.Background(), w.ref.Tenant, payload(t, `{"models":[{"id":"m","prices":{"currency":"EUR","input":7,"output":0}}],"defaults":{"model":"m"}}`), 1)
		require.NoError(t, err)
		w.say("again")
		later := w.settled()
		require.Equal(t, events, later[:len(events)], "later prices change nothing that was")
		require.Equal(t, []string{"assistant.message 0.007 EUR", "run.finished 0.007 EUR"}, costs(t, later[len(events):]))
	})
}

// A provider that chooses the model itself says which one it was.
func TestCostOfAProvidersOwnChoice(t *testing.T) {
	play(t, func(w *world) {
		w.offers(`{"models":[{"id":"scripted/chosen","prices":{"currency":"USD","input":1,"output":1}}]}`)
		w.script(func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
			return ports.Reply{
				Content: []domain.Block{{Type: domain.TextBlock, Text: "ok"}}, StopReason: domain.StopEndTurn, Model: "chosen",
				Usage: &domain.Usage{Input: 1, Output: 1},
			}, nil
		})
		w.start()
		w.say("go")
		require.Equal(t, []string{"assistant.message 0.000002 USD", "run.finished 0.000002 USD"}, costs(t, w.settled()))
	})
}

// What was there when the input came and is no more fails the run for good, and says why.
func TestModelThatIsNoMore(t *testing.T) {
	play(t, func(w *world) {
		w.offers(`{"models":[{"id":"kept","thinking":["low"]}]}`)
		w.script(text("ok"))
		w.start()
		for _, selection := range []string{`{"model":"kep"}`, `{"model":"kept","thinking":"high"}`} {
			w.say(selection, `"selection":`+selection)
			w.settled()
		}
		require.Empty(t, w.provider.requests)
		runs := w.runs()
		require.Len(t, runs, 2)
		for i, word := range []string{"it has low", `there is no model "kep"; did you mean kept?`} { // newest first
			require.Equal(t, domain.StatusFailed, runs[i].Status)
			require.Equal(t, 1, runs[i].Attempts)
			require.Contains(t, runs[i].Error, word)
		}
	})
}
