package domain_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// resumer compares transcripts that begin at the cut with the one that was built from the whole ledger.
type resumer struct {
	t      require.TestingT
	events []domain.Event
	full   *domain.Transcript
	fold   domain.Fold // as a session's row has it
	cold   []*domain.Transcript
	late   []domain.Seq // of the latest that was begun
	seen   map[string]int
}

func newResumer(t require.TestingT, watermark domain.Seq) *resumer {
	r := &resumer{t: t, full: domain.NewTranscript(), fold: domain.Fold{Owed: domain.OwedNone, LegacyWatermark: watermark}, seen: map[string]int{}}
	r.full.LegacyWatermark = watermark
	return r
}

// add applies the next event to all, begins one more after it, and keeps every one that keep wants.
func (r *resumer) add(e domain.Event, keep bool) {
	r.events = append(r.events, e)
	require.NoError(r.t, r.fold.Apply(e))
	require.NoError(r.t, r.full.Apply(e))
	for _, tr := range r.cold {
		require.NoError(r.t, tr.Apply(e))
		r.compare(tr)
	}
	if r.fold.KeptSeq == 0 {
		return
	}
	tr := r.resume()
	r.compare(tr)
	if keep {
		r.cold = append(r.cold, tr)
	}
}

func (r *resumer) resume() *domain.Transcript {
	resumption := domain.Resume(r.fold)
	for _, e := range r.events[r.fold.KeptSeq-1:] {
		require.Equal(r.t, e.Seq-1, resumption.Head())
		require.NoError(r.t, resumption.Add(e))
	}
	var late []domain.Event
	r.late = resumption.Late()
	for _, s := range r.late {
		late = append(late, r.events[s-1])
		r.seen["late"]++
	}
	tr, err := resumption.Transcript(late)
	require.NoError(r.t, err)
	return tr
}

func (r *resumer) compare(tr *domain.Transcript) {
	full := r.full
	require.Equal(r.t, full.Head(), tr.Head())
	require.NoError(r.t, domaintest.SameFold(tr.Fold, full.Fold))
	require.NoError(r.t, domaintest.SameFold(tr.Fold, r.fold))
	r.same(full.Entries(), tr.Entries(), "entries")
	r.same(full.Held(), tr.Held(), "held")
	r.same(full.Pending(), tr.Pending(), "pending")
	r.same(full.Measured(), tr.Measured(), "measured")
	for _, keep := range []int{0, 60, 1000} {
		r.same(full.Cut(keep), tr.Cut(keep), "cut")
	}
	for _, claim := range append([]domain.Seq{0, full.Head()}, full.Unanswered...) {
		for _, injected := range [][]domain.Seq{nil, full.Guides, full.Guides[:min(1, len(full.Guides))]} {
			r.request(tr, full.Present(claim, injected))
		}
	}
}

func (r *resumer) request(tr *domain.Transcript, p domain.Presented) {
	r.same(r.full.Context(p), tr.Context(p), "context")
	r.same(r.full.Tokens(p), tr.Tokens(p), "tokens")
	r.same(r.full.ImageBytes(p), tr.ImageBytes(p), "bytes of images")
	want, wantAnswers := r.full.Selection(p)
	got, answers := tr.Selection(p)
	r.same(want, got, "selection")
	r.same(wantAnswers, answers, "answers")
	if want != "" && wantAnswers > 0 {
		r.seen["selection in force"]++
	}
	if len(p.Seqs) == 0 && wantAnswers > 0 && r.full.Owed != domain.OwedNone {
		r.seen["answers without an input"]++
	}
}

func (r *resumer) same(want, got any, what string) {
	if !reflect.DeepEqual(want, got) {
		require.Equal(r.t, want, got, "%s at %d, kept from %d, of %v", what, r.full.Head(), r.fold.KeptSeq, ledgerText(r.events))
	}
}

func ledgerText(events []domain.Event) (lines []string) {
	for _, e := range events {
		lines = append(lines, string(e.Kind)+" "+e.Payload.String())
	}
	return lines
}

// census counts what a ledger has that a transcript which begins at a cut might miss.
func (r *resumer) census() {
	if len(r.cold) > 1 {
		r.seen["several"]++
	}
	waiting := map[domain.Seq]bool{}
	for _, e := range r.events {
		switch e.Kind {
		case domain.Compaction:
			r.seen["compaction"]++
		case domain.UserMessage:
			in, err := domain.ParseInput(e.Payload)
			require.NoError(r.t, err)
			waiting[e.Seq] = true
			if waiting[in.RetryOf] && in.RetryOf < e.Seq {
				r.seen["retried"]++
			}
		case domain.AssistantMessage:
			m, err := domain.ParseAssistant(e.Payload)
			require.NoError(r.t, err)
			if m.StopReason.Completed() {
				for _, s := range m.InputSeqs {
					delete(waiting, s)
				}
			}
		}
	}
}

// compactedLedger returns the longest ledger of a random history.
func compactedLedger(src domaintest.Source, steps int) ([]domain.Event, error) {
	g := domaintest.NewGenerator(src, domaintest.Options{Sessions: 1, Budget: 3, Clock: true})
	for range steps {
		if err := g.Step(); err != nil {
			return nil, err
		}
	}
	if err := g.Finish(); err != nil {
		return nil, err
	}
	var events []domain.Event
	for _, ref := range g.World.Refs() {
		events = append(events, g.World.Ledgers[ref].Events...)
	}
	return events, nil
}

func TestResume(t *testing.T) {
	failed := `{"inputSeqs":[1],"stopReason":"error"}`
	text := domaintest.AssistantText
	for name, c := range map[string]struct {
		events    []domain.Event
		watermark domain.Seq
		late      []domain.Seq
		held      int
		want      string // the context
	}{
		"a cut within a turn": {
			history(user, `{"text":"a"}`, answer, calls(seqs(1, 1), "c"), result, domaintest.Result("c", "x"),
				answer, calls(seqs(1, 1), "d"), result, domaintest.Result("d", "y"), answer, text(seqs(1, 1), "A"),
				domain.Compaction, domaintest.Compaction("sum", 4)),
			0, nil, 4, summed("sum") + "\n| assistant: call d sh\n| tool d/: \"y\"\n| assistant: \"A\"",
		},
		"a cut at a failure": {
			history(user, `{"text":"a"}`, answer, failed, finished, `{"status":"failed"}`, answer, text(seqs(1, 1), "A"),
				domain.Compaction, domaintest.Compaction("sum", 2)),
			0, nil, 3, summed("sum") + "\n| assistant: \"A\"",
		},
		"a late input, listed twice": {
			history(user, `{"text":"a"}`, user, `{"text":"b"}`, answer, text(seqs(1, 1), "A"),
				answer, calls(seqs(2, 2), "c"), result, domaintest.Result("c", "x"), answer, text(seqs(2, 2), "B"),
				domain.Compaction, domaintest.Compaction("sum", 3)),
			0, seqs(2, 2), 6, summed("sum") + "\n| assistant: \"A\"\n| user: \"b\"\n| assistant: call c sh\n| tool c/: \"x\"\n| assistant: \"B\"",
		},
		"a late input, retried": {
			history(user, `{"text":"a"}`, user, `{"text":"b"}`, answer, text(seqs(1, 1), "A"), user, `{"text":"B","retryOf":2}`,
				answer, text([]domain.Seq{2, 4}, "B"), domain.Compaction, domaintest.Compaction("sum", 3)),
			0, seqs(2, 2), 4, summed("sum") + "\n| assistant: \"A\"\n| user: \"B\"\n| assistant: \"B\"",
		},
		"a turn that lost its inputs": {
			history(user, `{"text":"a"}`, answer, calls(seqs(1, 1), "c"), result, domaintest.Result("c", "x"),
				answer, failed, finished, `{"status":"failed"}`, answer, calls(nil, "d"), result, domaintest.Result("d", "y"),
				domain.Compaction, domaintest.Compaction("sum", 4)),
			0, nil, 4, summed("sum") + "\n| assistant: call d sh\n| tool d/: \"y\"",
		},
		"two compactions": {
			history(user, `{"text":"a"}`, answer, text(seqs(1, 1), "A"), user, `{"text":"b"}`, user, `{"text":"c"}`,
				answer, text(seqs(3, 3), "B"), domain.Compaction, domaintest.Compaction("one", 2), answer, text(seqs(4, 4), "C"),
				domain.Compaction, domaintest.Compaction("two", 5)),
			0, seqs(4, 4), 4, summed("two") + "\n| assistant: \"B\"\n| user: \"c\"\n| assistant: \"C\"",
		},
		"before inputSeqs": {
			history(user, `{"text":"a"}`, user, `{"text":"b"}`, finished, `{"status":"done"}`,
				domain.Compaction, domaintest.Compaction("sum", 2), user, `{"text":"c"}`, answer, text(seqs(5, 5), "C")),
			2, nil, 4, summed("sum") + ", \"b\", \"c\"\n| assistant: \"C\"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResumer(t, c.watermark)
			for _, e := range c.events {
				r.add(e, true)
			}
			tr := r.resume()
			require.Equal(t, c.late, r.late)
			require.Equal(t, c.held, tr.Held())
			require.Equal(t, c.want, strings.Join(printedContext(tr.Context(tr.Present(tr.Head(), nil))), "\n"))
		})
	}
}

func TestResumeRefusesBadPayloads(t *testing.T) {
	bad := history(user, `{"text":1}`)[0]
	r := domain.Resume(domain.Fold{KeptSeq: 1})
	require.ErrorIs(t, r.Add(bad), domain.ErrInvalidPayload)
	require.Zero(t, r.Head())
	_, err := r.Transcript([]domain.Event{bad})
	require.ErrorIs(t, err, domain.ErrInvalidPayload)
}

// A transcript that was begun at the cut equals the one that was built from event 1, at every head and after every
// further event.
func TestResumeIsTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := domaintest.Seeded(rapid.Uint64().Draw(t, "seed")) // histories that rapid draws come by too few compactions
		events, err := compactedLedger(src, rapid.IntRange(1, 150).Draw(t, "steps"))
		require.NoError(t, err)
		r := newResumer(t, 0)
		for _, e := range events {
			r.add(e, e.Kind == domain.Compaction || rapid.IntRange(0, 20).Draw(t, "keep") == 0)
		}
	})
}

// The same on histories that are the same each time; they must come by what matters.
func TestResumeReachesTheRareCases(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(40) {
		events, err := compactedLedger(domaintest.Seeded(seed), 200)
		require.NoError(t, err)
		for _, watermark := range []bool{false, true} {
			mark := domain.Seq(0)
			if watermark {
				if events, mark = legacy(t, events); mark == 0 {
					continue
				}
				seen["legacy"]++
			}
			r := newResumer(t, mark)
			r.seen = seen
			for i, e := range events {
				r.add(e, e.Kind == domain.Compaction || i%32 == 0)
			}
			r.census()
		}
	}
	t.Log(seen)
	for _, rare := range []string{"late", "several", "compaction", "retried", "selection in force", "answers without an input", "legacy"} {
		require.Greater(t, seen[rare], 10, "too few: %s (of %v)", rare, seen)
	}
}

// legacy returns events as if all but the last quarter had been written before inputSeqs, and the watermark that says
// which inputs they answered, or 0 when there is no such ledger.
func legacy(t require.TestingT, events []domain.Event) ([]domain.Event, domain.Seq) {
	f := domain.Fold{Owed: domain.OwedNone}
	begins, mark := 0, domain.Seq(0) // where inputSeqs begin
	highest := domain.Seq(0)         // answered input
	for i, e := range events[:len(events)*3/4] {
		waited := f.Clone()
		require.NoError(t, f.Apply(e))
		for _, s := range waited.Unanswered {
			if !slices.Contains(f.Unanswered, s) {
				highest = max(highest, s)
			}
		}
		if len(f.TurnInputs) == 0 && highest > 0 && (len(f.Unanswered) == 0 || f.Unanswered[0] > highest) {
			begins, mark = i+1, highest
		}
	}
	old := slices.Clone(events)
	for i := range old[:begins] {
		old[i].Payload = old[i].Payload.Without("inputSeqs")
	}
	return old, mark
}
