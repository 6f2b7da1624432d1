package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keel-agent/keel/domain"
)

func TestContestTakesTurns(t *testing.T) {
	var order []string
	of := func(name string, scores ...float64) side {
		return side{name: name, round: func(context.Context, time.Duration) (float64, error) {
			order = append(order, name)
			score := scores[0]
			scores = scores[1:]
			return score, nil
		}}
	}
	b := &bench{rounds: 3}
	s, err := b.contest(t.Context(), of("ours", 999, 10, 30, 20), of("limit", 999, 10, 10, 40))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Fields("ours limit ours limit ours limit ours limit"); !slices.Equal(order, want) {
		t.Errorf("the order was %v, want %v", order, want)
	}
	if got := [3]float64{s.median(0), s.median(1), s.ratio(0, 1)}; got != [3]float64{20, 10, 1} {
		t.Errorf("medians and ratio are %v", got)
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing is %g", got)
	}
}

func TestDriveStopsAtTheFirstFailure(t *testing.T) {
	fault := errors.New("fault")
	if _, err := drive(t.Context(), 4, time.Hour, one(func(context.Context, int) error { return fault })); !errors.Is(err, fault) {
		t.Errorf("the error is %v", err)
	}
	left := 10
	rate, err := drive(t.Context(), 1, time.Hour, func(context.Context, int) (int, error) {
		if left == 0 {
			return 0, errEnough
		}
		left--
		return 2, nil
	})
	if err != nil || rate <= 0 {
		t.Errorf("rate %g, error %v", rate, err)
	}
}

func TestEachVisitsAll(t *testing.T) {
	seen := make([]int, 100)
	if err := each(t.Context(), len(seen), 7, func(_ context.Context, i int) error { seen[i]++; return nil }); err != nil {
		t.Fatal(err)
	}
	if slices.Min(seen) != 1 || slices.Max(seen) != 1 {
		t.Errorf("visits: %v", seen)
	}
}

func TestChoose(t *testing.T) {
	all := []measure{{name: "turns"}, {name: "start"}, {name: "submits"}}
	chosen, err := choose(all, "s,turn")
	if err != nil || len(chosen) != 3 {
		t.Errorf("chose %v, error %v", chosen, err)
	}
	if _, err := choose(all, "start,nothing"); err == nil {
		t.Error("an unknown name was taken")
	}
}

func TestFigures(t *testing.T) {
	for got, want := range map[string]string{
		perSecond(7.4): "7/s", perSecond(999.4): "999/s", perSecond(1234): "1,230/s", perSecond(98765): "98,800/s",
		times(0.876): "0.88 ×", times(21.4): "21 ×", ms(0.123): "0.123 ms", ms(1.234): "1.23 ms", ms(12.34): "12.3 ms", ms(841): "841 ms",
		kib(24 * 1024): "24.0 KiB", kib(100 << 20): "100.0 MiB", thousands(100): "100", thousands(100_000): "100,000",
		atLeast(2.5).text: "≥ 2.5 ×", atLeast(2).met(1.9): "**no**", atMost(5, "").met(5): "yes", goal{}.met(1): "",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	b := &bench{rounds: 3, round: time.Second}
	b.note("one %s", "note")
	var out bytes.Buffer
	tables := add(add(nil, "A", []row{{measure: "a|b", ours: "1"}}), "A", []row{{measure: "c"}})
	b.markdown(&out, []string{"fact"}, tables, time.Minute)
	for _, want := range []string{"- fact\n", "\n## A\n", `| a\|b | 1 |`, "| c |", "- one note\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}

func TestFrameIDs(t *testing.T) {
	long := strings.Repeat("x", 5000) + "id: 9\n"
	stream := "1a\r\nid: 1\ndata: {}\n\n\r\n2\r\n: keep-alive\n\nid: 2\r\ndata: id: 7\ndata: " + long + "id: 3\n"
	var got []int64
	if err := frameIDs(strings.NewReader(stream), func(id int64) { got = append(got, id) }); err == nil {
		t.Error("the end of the stream is not told")
	}
	if !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("ids: %v", got)
	}
}

// Whatever is committed has the size that the report says, and the shape of its kind.
func TestPayloads(t *testing.T) {
	for kind, payloads := range map[domain.Kind][]domain.Payload{
		domain.UserMessage:      {inputPayload(newID())},
		domain.AssistantMessage: {messagePayload, callPayload(12, newID()), answerPayload(12)},
		domain.ToolResult:       {resultPayload(newID())},
	} {
		for _, p := range payloads {
			if n := len(p.String()); n != kibibyte {
				t.Errorf("%s has %d bytes", kind, n)
			}
			if err := domain.CheckShape(kind, p); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}
