package runner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/compaction"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// thousand is a text of a thousand tokens.
var thousand = strings.Repeat("word ", 800)

// windows is a catalogue of models with windows of that many tokens.
type windows int

func (m windows) Resolve(_ context.Context, _, model string) (domain.Model, domain.ModelDefaults, error) {
	return domain.Model{Provider: "scripted", Name: model, ContextWindow: int(m)}, domain.ModelDefaults{}, nil
}

// compacting is play with a window of that many tokens for every model, compactions above a share of it, and n turns that took about a thousand each.
func compacting(t *testing.T, window int, at float64, n int, f func(w *world, p *node)) {
	t.Helper()
	play(t, func(w *world) {
		w.models, w.compacts = windows(window), compaction.New(compaction.Config{At: at, Keep: 0.2})
		w.script(text(thousand))
		p := w.start()
		for i := range n {
			w.say(fmt.Sprint("turn ", i))
			w.settled()
		}
		w.provider.mu.Lock()
		w.provider.requests = nil
		w.provider.mu.Unlock()
		f(w, p)
	})
}

// since is the ledger after seq in one line per event.
func (w *world) since(seq domain.Seq) []string {
	w.t.Helper()
	return strings.Split(strings.ReplaceAll(w.text(), strings.TrimSpace(thousand), "…"), "\n")[seq:]
}

// summaries is how many summaries were asked for.
func (s *scripted) summaries() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.Turn.Summary {
			n++
		}
	}
	return n
}

// texts is what a request presents, shortened, one line per message.
func texts(req ports.ModelRequest) (lines []string) {
	for _, m := range req.Messages {
		var parts []string
		for _, b := range m.Content {
			parts = append(parts, strings.ReplaceAll(string(b.Type)[:1]+":"+b.Text[:min(len(b.Text), 60)], "\n", " "))
		}
		lines = append(lines, string(m.Role)+" "+strings.Join(parts, " | "))
	}
	return lines
}

const head = "t:Summary of the conversation before this point:  "

// K33, 1: what arrives while the summary is written, by the rules of its delivery.
func TestK33InputDuringCompaction(t *testing.T) {
	compacting(t, 4000, 0.8, 4, func(w *world, p *node) {
		w.script(slowly(20*time.Second, text("S")), text("both"), text("q1's"))
		w.say("go")
		time.Sleep(5 * time.Second)
		q := w.say("q1")
		require.EqualValues(t, 14, q.Event.Seq, "it is in the ledger at once")
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 15, w.guide("g1").Event.Seq)
		w.settled()
		require.Equal(t, []string{
			"user queue go", "user queue q1", "user guide g1", "compaction from 13: S", "assistant [13 15] end_turn: both",
			"finished done turns=1 end_turn", "assistant [14] end_turn: q1's", "finished done turns=1 end_turn",
		}, numberless(w.since(12)))
		require.Equal(t, []string{"user " + head + "S | t:go | t:g1"}, texts(w.provider.requests[1]))
		require.Equal(t, []string{"user " + head + "S | t:go | t:g1", "assistant t:both", "user t:q1"}, texts(w.provider.requests[2]))
		p.drain(time.Second)
	})
}

func numberless(lines []string) []string {
	for i, l := range lines {
		_, lines[i], _ = strings.Cut(l, " ")
	}
	return lines
}

// K33, 1, with a cancel: nothing is committed of the summary, and all that arrived waits for a later input.
func TestK33CancelDuringCompaction(t *testing.T) {
	compacting(t, 4000, 0.8, 4, func(w *world, p *node) {
		w.script(slowly(20*time.Second, text("S")), slowly(time.Second, text("S2")), text("all"))
		w.say("go")
		time.Sleep(5 * time.Second)
		w.say("q1")
		time.Sleep(5 * time.Second)
		w.guide("g1")
		time.Sleep(5 * time.Second)
		began := time.Now()
		w.cancel()
		w.settled()
		require.Less(t, time.Since(began), time.Second)
		require.Equal(t, []string{"user queue go", "user queue q1", "user guide g1", "finished cancelled turns=0 aborted"}, numberless(w.since(12)))
		s, _, err := w.store.Sessions().Get(context.Background(), w.ref)
		require.NoError(t, err)
		require.Equal(t, []domain.Seq{13, 14, 15}, s.Unanswered)
		w.say("later")
		w.settled()
		require.Equal(t, []string{"user queue later", "compaction from 13: S2", "assistant [13 14 15 17] end_turn: all", "finished done turns=1 end_turn"},
			numberless(w.since(16)))
		require.Equal(t, []string{"user " + head + "S2 | t:go | t:q1 | t:g1 | t:later"}, texts(w.provider.requests[2]))
		p.drain(time.Second)
	})
}

// What the backend counts sets the estimate right: here a request has twice the tokens that we think.
func TestCountsSetTheEstimateRight(t *testing.T) {
	compacting(t, 8000, 0.8, 3, func(w *world, p *node) {
		w.script(func(context.Context, ports.ModelRequest, func(ports.Delta)) (ports.Reply, error) {
			return ports.Reply{Content: []domain.Block{{Type: domain.TextBlock, Text: thousand}}, StopReason: domain.StopEndTurn,
				Usage: &domain.Usage{Input: 6100}}, nil
		}, text("S"), text("ok"))
		w.say("counted")
		w.settled()
		require.Zero(t, w.provider.summaries())
		w.say("go") // some 4,100 tokens as we count
		w.settled()
		require.Equal(t, 1, w.provider.summaries())
		p.drain(time.Second)
	})
}

// A compaction that is asked for happens though nothing else is to be done, once, and never when there is nothing to
// compact.
func TestCompactionAskedFor(t *testing.T) {
	compacting(t, 100_000, 0.8, 3, func(w *world, p *node) {
		ask := func() {
			w.do(domain.EnsureRun{At: time.Now(), Compact: true, NewRun: w.ids.New()})
			w.settled()
		}
		w.script(counting(text("S"), domain.Usage{Input: 700, Output: 1}), text("next"))
		p.line.lose = once[domain.AppendCompaction]()
		ask()
		require.Equal(t, []string{"compaction from 7: S", "finished done turns=0"}, numberless(w.since(9)))
		c, err := domain.ParseCompaction(w.ledger()[9].Payload)
		require.NoError(t, err)
		require.Equal(t, domain.Compacted{Summary: "S", FirstKept: 7, Provider: "scripted", Usage: &domain.Usage{Input: 700, Output: 1}}, c)
		require.Contains(t, w.ledger()[10].Payload.String(), `"tokens":{"input":700,"output":1}`)
		require.False(t, w.runs()[0].Compact)
		ask()
		require.Equal(t, []string{"finished done turns=0"}, numberless(w.since(11)), "one turn is left")
		require.Equal(t, 1, w.provider.summaries())
		w.say("next")
		w.settled()
		require.Equal(t, []string{"user " + head + "S | t:turn 2", "assistant t:" + thousand[:60], "user t:next"}, texts(w.provider.requests[1]))
		p.drain(time.Second)
	})
}

// once loses the reply to the first command of a kind.
func once[C domain.Command]() func(domain.Command) bool {
	lost := false
	return func(c domain.Command) bool {
		_, is := c.(C)
		is, lost = is && !lost, lost || is
		return is
	}
}

// The catalogue's window decides, and its prices say what a summary cost.
func TestCatalogueDrivesCompaction(t *testing.T) {
	compacting(t, 1_000_000, 0.8, 0, func(w *world, p *node) {
		w.offers(`{"models":[{"id":"deep","model":"backend-name","contextWindow":4000,"prices":{"currency":"USD","input":"10","output":"0"}}],
			"defaults":{"model":"deep"}}`)
		p.drain(time.Second)
		p = w.start()
		for i := range 4 {
			w.say(fmt.Sprint("turn ", i))
			w.settled()
		}
		w.script(counting(text("S"), domain.Usage{Input: 100_000}), text("ok"))
		w.provider.requests = nil
		w.say("go")
		w.settled()
		require.Equal(t, []string{"user queue go", "compaction from 13: S", "assistant [13] end_turn: ok", "finished done turns=1 end_turn"},
			numberless(w.since(12)))
		require.Equal(t, []string{"compaction 1 USD", "run.finished 1 USD"}, costs(t, w.ledger()[12:]))
		p.drain(time.Second)
	})
}

// A drain in the middle of a summary hands the run back, the end of a lease leaves it to another process; that one writes
// the summary, and only one is committed.
func TestSummaryUnderAnotherOwner(t *testing.T) {
	for name, leave := range map[string]func(*node){
		"drain":      func(p *node) { p.drain(time.Second) },
		"lost lease": func(p *node) { p.line.setCut(true) },
	} {
		t.Run(name, func(t *testing.T) {
			compacting(t, 4000, 0.8, 4, func(w *world, p *node) {
				w.script(slowly(10*time.Minute, text("first")), text("second"), text("ok"))
				w.say("go")
				time.Sleep(5 * time.Second)
				other := w.start()
				leave(p)
				w.settled()
				require.Equal(t, []string{"user queue go", "compaction from 13: second", "assistant [13] end_turn: ok", "finished done turns=1 end_turn"},
					numberless(w.since(12)))
				p.line.setCut(false)
				time.Sleep(20 * time.Minute)
				require.Len(t, w.ledger(), 16)
				other.drain(time.Second)
			})
		})
	}
}

// A backend that makes a fault of its own of the end of a request does not make a failure of a drain.
func TestDrainDuringSummaryIsNoFault(t *testing.T) {
	compacting(t, 100_000, 0.8, 3, func(w *world, p *node) {
		w.script(func(ctx context.Context, _ ports.ModelRequest, _ func(ports.Delta)) (ports.Reply, error) {
			<-ctx.Done()
			return ports.Reply{}, &ports.ProviderError{Class: ports.Fatal, Message: "the connection was closed"}
		}, text("S"))
		w.do(domain.EnsureRun{At: time.Now(), Compact: true, NewRun: w.ids.New()})
		time.Sleep(time.Second)
		p.drain(time.Second)
		require.Len(t, w.ledger(), 9)
		other := w.start()
		w.settled()
		require.Equal(t, []string{"compaction from 7: S", "finished done turns=0"}, numberless(w.since(9)))
		other.drain(time.Second)
	})
}

// A summary that fails fails the attempt when it is needed; one that nobody asked for is done without.
func TestSummaryFails(t *testing.T) {
	for name, c := range map[string]struct {
		answers []answer
		ask     bool
		want    []string
	}{
		"before a request": {
			[]answer{fault(ports.Retryable, 0), text("ok")}, false,
			[]string{"user queue go", "assistant [13] end_turn: ok", "finished done turns=1 end_turn"},
		},
		"longer than what it stands for": {
			[]answer{text(strings.Repeat(thousand, 5)), text("ok")}, false,
			[]string{"user queue go", "assistant [13] end_turn: ok", "finished done turns=1 end_turn"},
		},
		"asked for": {
			[]answer{fault(ports.Retryable, 0), text("S"), text("ok")}, true,
			[]string{
				"user queue go", "finished failed turns=0  compaction: provider: retryable", "compaction from 13: S",
				"assistant [13] end_turn: ok", "finished done turns=1 end_turn",
			},
		},
		"asked for, and empty": {
			[]answer{text(" "), text("S"), text("ok")}, true,
			[]string{
				"user queue go", "finished failed turns=0  compaction: provider: the model gave no summary", "compaction from 13: S",
				"assistant [13] end_turn: ok", "finished done turns=1 end_turn",
			},
		},
		"after a refusal": {
			[]answer{fault(ports.Retryable, 0), fault(ports.Overflow, 0), fault(ports.Retryable, 0), fault(ports.Retryable, 0), fault(ports.Overflow, 0), text("S"), text("ok")}, false,
			[]string{
				"user queue go", "assistant [13] error:", "finished failed turns=1  compaction: provider: retryable",
				"assistant [13] error:", "compaction from 13: S", "assistant [13] end_turn: ok", "finished done turns=2 end_turn",
			},
		},
		"half of it is short enough": {
			[]answer{fault(ports.Overflow, 0), fault(ports.TooLarge, 0), text("S"), text("ok")}, false,
			[]string{"user queue go", "compaction from 13: S", "assistant [13] end_turn: ok", "finished done turns=1 end_turn"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			compacting(t, 4000, 0.8, 4, func(w *world, p *node) {
				w.script(c.answers...)
				if c.ask {
					p.line.setCut(true)
				}
				w.say("go")
				if c.ask {
					w.do(domain.EnsureRun{At: time.Now(), Compact: true, NewRun: w.ids.New()})
					p.line.setCut(false)
				}
				w.settled()
				require.Equal(t, c.want, numberless(w.since(12)))
				p.drain(time.Second)
			})
		})
	}
}

// Without a compactor a request for a compaction is answered as one that finds nothing to compact.
func TestCompactionWithoutACompactor(t *testing.T) {
	play(t, func(w *world) {
		w.script(text("a"))
		p := w.start()
		w.say("go")
		w.settled()
		w.do(domain.EnsureRun{At: time.Now(), Compact: true, NewRun: w.ids.New()})
		w.settled()
		require.Equal(t, []string{"finished done turns=0"}, numberless(w.since(3)))
		require.False(t, w.runs()[0].Compact)
		p.drain(time.Second)
	})
}

// A summary is asked for with the credential of the tenant whose conversation it tells.
func TestSummariesCarryTheTenantsCredential(t *testing.T) {
	play(t, func(w *world) {
		w.models, w.compacts = windows(4000), compaction.New(compaction.Config{At: 0.8, Keep: 0.2})
		w.credentials = &credentials{answers: []func() (ports.Confidential, error){brings("theirs")}}
		w.script(text(thousand))
		w.start()
		for i := range 6 {
			w.say(fmt.Sprint("turn ", i))
			w.settled()
		}
		require.Positive(t, w.provider.summaries())
		for _, r := range w.provider.requests {
			require.Equal(t, "theirs", r.Credential.Reveal())
		}
	})
}

// Another model may write the summaries, within its own window and for its own price; the tenant need not have it.
func TestSummariesByAnotherModel(t *testing.T) {
	for configured, c := range map[string]struct{ entry, asked string }{
		"scripted/small": {`{"id":"mine","model":"small","enabled":false`, "small"},
		"small":          {`{"id":"scripted/small","enabled":false`, "small"},
		"scripted":       {`{"id":"scripted"`, ""},
	} {
		t.Run(configured, func(t *testing.T) {
			play(t, func(w *world) {
				w.compacts = compaction.New(compaction.Config{At: 0.8})
				w.offers(`{"models":[{"id":"m","contextWindow":5000,"prices":{"currency":"EUR","input":7,"output":7}},` + c.entry +
					`,"contextWindow":2500,"prices":{"currency":"USD","input":1,"output":2}}],"defaults":{"model":"m"}}`)
				w.script(text(thousand))
				w.start(func(cfg *runner.Config) { cfg.SummaryModel = configured })
				for i := range 4 {
					w.say(fmt.Sprint("turn ", i))
					w.settled()
				}
				w.provider.requests = nil
				w.script(counting(text("S"), domain.Usage{Input: 1000, Output: 100}), text("ok"))
				w.say("go")
				w.settled()
				require.Equal(t, []string{"user queue go", "compaction from 13: S", "assistant [13] end_turn: ok", "finished done turns=1 end_turn"}, numberless(w.since(12)))
				summary := w.provider.requests[0]
				require.True(t, summary.Turn.Summary)
				require.Equal(t, c.asked, summary.Model)
				require.Contains(t, summary.Messages[0].Content[0].Text, leftOut, "its window is smaller")
				require.Equal(t, []string{"compaction 0.0012 USD", "run.finished 0.0012 USD"}, costs(t, w.ledger()[12:]))
			})
		})
	}
}

// A summary model that no catalogue tells anything of is asked as it is named.
func TestSummariesByAnUnknownModel(t *testing.T) {
	play(t, func(w *world) {
		w.compacts = compaction.New(compaction.Config{At: 0.8})
		w.offers(`{"models":[{"id":"m","contextWindow":4000}],"defaults":{"model":"m"}}`)
		w.script(text(thousand))
		w.start(func(c *runner.Config) { c.SummaryModel = "hidden" })
		for i := range 5 {
			w.say(fmt.Sprint("turn ", i))
			w.settled()
		}
		i := slices.IndexFunc(w.provider.requests, func(r ports.ModelRequest) bool { return r.Turn.Summary })
		require.Equal(t, "hidden", w.provider.requests[i].Model)
		require.NotContains(t, w.provider.requests[i].Messages[0].Content[0].Text, leftOut)
	})
}
