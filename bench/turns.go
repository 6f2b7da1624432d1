package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

const (
	turnsOfRun = 40 // provider calls of the run that is watched
	keptEvents = 40 // that the last compaction left in the context
)

// turns measures what one more turn, and one more run, costs the runner after ledgers of several lengths. Each ledger
// ends with a compaction, so that the context that a provider gets is as long for all.
func turns(ctx context.Context, b *bench) ([]row, error) {
	lengths := pick(b, []int{100, 1000, 10_000, 100_000}, []int{100, 1000, 10_000})
	found := make([]turnCost, len(lengths))
	for range 3 * b.rounds { // short ones
		for i, n := range lengths {
			if err := found[i].measure(ctx, n); err != nil {
				return nil, err
			}
		}
	}
	var turnRows, runRows []row
	for i, n := range lengths {
		c, first := &found[i], &found[0]
		name := " after " + thousands(n) + " events, memory store"
		turnRows = append(turnRows, flat("one more turn"+name, median(c.turns), median(first.turns), median(c.turnBytes), median(first.turnBytes), i == 0))
		runRows = append(runRows, flat("one more run, until its provider is called,"+name,
			median(c.starts), median(first.starts), median(c.startBytes), median(first.startBytes), i == 0))
	}
	return append(turnRows, runRows...), nil
}

// turnCost is milliseconds and bytes allocated.
type turnCost struct{ starts, startBytes, turns, turnBytes []float64 }

// flat is a row whose goal is to cost as much as the first one.
func flat(measure string, took, tookFirst, bytes, bytesFirst float64, first bool) row {
	r := row{measure: measure, ours: ms(took) + ", " + kib(bytes) + " allocated"}
	if first {
		return r
	}
	g := atMost(1.1, "flat within 10 %")
	r.limit = "after the shortest " + ms(tookFirst) + ", " + kib(bytesFirst)
	r.ratio = times(took/tookFirst) + ", " + times(bytes/bytesFirst)
	r.goal, r.met = g.text, g.met(max(took/tookFirst, bytes/bytesFirst))
	return r
}

// measure plays one run after a ledger of n events.
func (c *turnCost) measure(ctx context.Context, n int) error {
	ref := refTo(newID())
	ended := newFinishes([]domain.SessionRef{ref})
	r, err := memoryRig(ctx, ended)
	if err != nil {
		return err
	}
	if err := r.longLedger(ctx, ref, n); err != nil {
		return err
	}
	<-ended[ref.Session] // the run that wrote the ledger
	calls := 0
	var at time.Time
	var began, last runtime.MemStats
	provider := stubProvider{answer: func(ports.ModelRequest) ports.Reply {
		now := time.Now()
		switch calls++; calls {
		case 1:
			runtime.ReadMemStats(&last)
			c.starts = append(c.starts, millis(now.Sub(at)))
			c.startBytes = append(c.startBytes, float64(last.TotalAlloc-began.TotalAlloc))
		case turnsOfRun:
			allocated := last.TotalAlloc
			runtime.ReadMemStats(&last)
			c.turnBytes = append(c.turnBytes, float64(last.TotalAlloc-allocated)/(turnsOfRun-1))
		}
		if calls > 2 { // the second one waited for the statistics too
			c.turns = append(c.turns, millis(now.Sub(at)))
		}
		at = time.Now()
		if calls == turnsOfRun {
			return lastAnswer()
		}
		return toolCall()
	}}
	stop, err := r.startRunner(ctx, provider, runner.Config{})
	if err != nil {
		return err
	}
	defer stop()
	warmHeap()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // collecting the whole ledger of the store is not the runner's cost
	runtime.ReadMemStats(&began)
	at = time.Now()
	if err := r.submit(ctx, ref); err != nil {
		return err
	}
	return ended.await(ctx, ref)
}

// warmHeap leaves memory behind that the process has touched, so that no measure pays for the first use of a page.
func warmHeap() {
	pieces := make([][]byte, 4<<10)
	for i := range pieces {
		pieces[i] = make([]byte, 8<<10)
	}
	runtime.KeepAlive(pieces)

	runtime.GC()
}

// longLedger makes a session with a ledger of about n events: one long run of tool calls, compacted at its end.
func (r *rig) longLedger(ctx context.Context, ref domain.SessionRef, n int) error {
	if err := r.create(ctx, ref); err != nil {
		return err
	}
	if err := r.submit(ctx, ref); err != nil {
		return err
	}
	claimed, err := r.claim(ctx, 1)
	if err != nil {
		return err
	}
	a := claimed[0]
	do := func(cmd domain.Command) (domain.Seq, error) {
		out, err := r.ledger.Do(ctx, ref, cmd)
		return out.Session.HeadSeq, err
	}
	answer := func(payload string) error {
		_, err := do(domain.AppendAssistant{
			At: time.Now(), Run: a.run, Token: a.token, GenerationID: newID(), Payload: domain.StoredPayload(payload),
		})
		return err
	}
	head := a.input
	for int(head) < n-3 {
		call := newID()
		err := answer(fmt.Sprintf(`{"content":[{"type":"toolCall","id":%q,"name":%q,"arguments":{}}],"inputSeqs":[%d],"stopReason":"tool_use"}`, call, stubTool, a.input))
		if err != nil {
			return err
		}
		head, err = do(domain.AppendToolResult{
			At: time.Now(), Run: a.run, Token: a.token, Call: call, Payload: domain.StoredPayload(`{"toolCallId":"` + call + `","content":[]}`),
		})
		if err != nil {
			return err
		}
	}
	if err := answer(fmt.Sprintf(`{"content":[{"type":"text","text":"done"}],"inputSeqs":[%d],"stopReason":"end_turn"}`, a.input)); err != nil {
		return err
	}
	kept := (head - keptEvents) / 2 * 2 // an answer: the input is event 1
	if _, err := do(domain.AppendCompaction{
		At: time.Now(), Run: a.run, Token: a.token, Payload: domain.StoredPayload(fmt.Sprintf(`{"summary":"much was done","firstKeptSeq":%d}`, kept)),
	}); err != nil {
		return err
	}
	return r.settle(ctx, a, domain.Success)
}

func thousands(n int) string {
	text := strconv.Itoa(n)
	if len(text) > 3 {
		text = text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}
