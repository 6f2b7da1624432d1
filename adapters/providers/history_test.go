package providers_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

var (
	firstSeed = flag.Uint64("seed", 1, "TestAnyHistory: the first seed")
	seedCount = flag.Int("seeds", 0, "TestAnyHistory: how many seeds to play from the first on; 0 means 16, or 8 with -short")
)

// historySteps is how many steps of clients, workers and processes one seed has.
const historySteps = 300

// TestAnyHistory holds for every prefix of the ledger of a session in which anything happened (crashes, cancels, retries,
// compactions, changes of model, answers of all wires): the request that each provider would be given is one that the
// strictest backend of its wire takes; it tells what the ledger says, all of it once and in order, and nothing else; and
// what a model signed goes back to it whole, and to no other.
func TestAnyHistory(t *testing.T) {
	n := *seedCount
	if n == 0 {
		if n = 16; testing.Short() {
			n = 8
		}
	}
	replays := replayCount{by: map[string]int{}}
	t.Run("seeds", func(t *testing.T) {
		shards := min(n, runtime.GOMAXPROCS(0))
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for i := shard; i < n; i += shards {
					h := newHistory(t, *firstSeed+uint64(i))
					h.play()
					replays.add(h.replayed)
				}
			})
		}
	})
	if n >= 16 {
		for _, b := range backends {
			require.Equal(t, b.sign != nil, replays.by[b.provider] > 0, "what %s signed went back %d times", b.provider, replays.by[b.provider])
		}
	}
}

// replayCount counts by provider how many signed blocks went back.
type replayCount struct {
	mu sync.Mutex
	by map[string]int
}

func (c *replayCount) add(by map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range by {
		c.by[name] += n
	}
}

// history is one seed.
type history struct {
	t        *testing.T
	seed     uint64
	random   *rand.Rand
	lines    []*line
	read     *domain.Transcript // of the ledger, up to the last answer
	proofs   []proof            // of all that was signed, and of thinking that was not
	replayed map[string]int
	texts    int
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), read: domain.NewTranscript(), replayed: map[string]int{}}
	for i := range backends {
		h.lines = append(h.lines, open(t, &backends[i]))
	}
	return h
}

func (h *history) play() {
	g := domaintest.NewGenerator(domaintest.Seeded(h.seed), domaintest.Options{Sessions: 1, Budget: 3, Clock: true, Busy: true, Propose: true, Vary: h.vary})
	for range historySteps {
		if err := g.Step(); err != nil {
			h.fail("%v\n%v", err, &g.History)
		}
	}
	for _, l := range g.World.Ledgers {
		h.checkPrefixes(l.Events)
	}
}

// fail ends the test and says how to see the same again.
func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf(format+"\nagain: go test ./adapters/providers -run '^TestAnyHistory$' -seed=%d -seeds=1", append(args, h.seed)...)
}

// checkPrefixes makes the requests of all providers after each event, from a transcript that shows all and from one out
// of which old images and long outputs have been left.
func (h *history) checkPrefixes(events []domain.Event) {
	whole, lean := domain.NewTranscript(), domain.NewTranscript()
	for i := range events {
		events[i] = h.aged(events[i])
	}
	facts := readFacts(h.t, events)
	for i, e := range events {
		require.NoError(h.t, whole.Apply(e))
		require.NoError(h.t, lean.Apply(e))
		switch h.random.IntN(8) {
		case 0:
			lean.LeaveOutImages()
		case 1:
			lean.LeaveOutOutputs()
		case 2:
			lean.LeaveOutRefusedImages(lean.Present(e.Seq, nil))
		}
		tr := wiretest.OneOf(h.random, whole, lean)
		claim := wiretest.OneOf(h.random, e.Seq, e.Seq, domain.Seq(h.random.Int64N(int64(e.Seq)+1)))
		for _, l := range h.lines {
			m := wiretest.OneOf(h.random, l.models()...)
			err := h.check(l, m, request(tr, m, tr.Present(claim, nil)))
			if err == nil {
				err = l.checkMeaning(m, facts[:i+1], claim, tr == lean)
			}
			if err != nil {
				h.fail("a request to %s after event %d of %d, %s: %v\n%s", m.ID, i+1, len(events), e.Kind, err, l.body)
			}
		}
	}
}

// request is what the runner gives the provider of m at a request boundary that presents p.
func request(tr *domain.Transcript, m domain.Model, p domain.Presented) ports.ModelRequest {
	raw, _ := tr.Selection(p)
	s, err := domain.ParseSelection(raw)
	if err != nil || m.Check(s) != nil { // the runner would end the run
		s = domain.Selection{}
	}
	messages := tr.Context(p)
	if !m.Takes(domain.ModalityImage) {
		messages = domain.WithoutImages(messages)
	}
	return ports.ModelRequest{
		Model: m.Name, System: strings.Join(s.Tools, " "), Messages: messages, Tools: toolsOf(s.Tools),
		Options: ports.Options{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Thinking: m.Level(s.Thinking)},
	}
}

// check has a request made and returns what is wrong with it.
func (h *history) check(l *line, m domain.Model, req ports.ModelRequest) error {
	l.ask(req)
	return h.checkBody(l, m, req.Messages)
}

// checkBody returns what is wrong with the last request that l carried.
func (h *history) checkBody(l *line, m domain.Model, messages []domain.Message) error {
	if err := l.backend.check(m.Name, []byte(l.body)); err != nil {
		return err
	}
	return h.checkProofs(l, m, messages)
}

// checkProofs holds that a body has nothing that others signed, and whatever its own model did and went on behind.
func (h *history) checkProofs(l *line, m domain.Model, messages []domain.Message) error {
	due := strings.Join(l.backend.due(m.Name, messages), "")
	for _, p := range h.proofs {
		signed := p.signature != "" && strings.Contains(l.body, p.signature)
		told := p.mark != "" && strings.Contains(l.body, p.mark)
		switch {
		case signed && !h.signedBy(l.backend.maker(m.Name), p.signature):
			return fmt.Errorf("a signature of %s, %q, goes to %s", p.maker, p.signature, m.ID)
		case p.mark != "" && signed != told:
			return fmt.Errorf("the thinking %q goes without its signature, or the other way round", p.mark)
		case p.mark != "" && !told && strings.Contains(due, p.mark):
			return fmt.Errorf("the thinking %q does not go back", p.mark)
		case signed:
			h.replayed[l.backend.provider]++
		}
	}
	return nil
}

// signedBy reports whether maker signed so. Where texts are the same, so are signatures of models with one name.
func (h *history) signedBy(maker, signature string) bool {
	return slices.ContainsFunc(h.proofs, func(p proof) bool { return p.maker == maker && p.signature == signature })
}
