package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// errStuck ends a measure whose run does not end.
var errStuck = errors.New("a run did not end within thirty seconds")

// wholeRuns compares runs from submission to settlement with DBOS's workflows.
func wholeRuns(ctx context.Context, b *bench) ([]row, error) {
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	var peer *dbosPeer
	if b.peers {
		if peer, err = b.openDBOS(ctx, server); err != nil {
			return nil, err
		}
		defer peer.close()
	}
	goals := map[int]goal{32: atLeast(4), 64: atLeast(6)}
	var rows []row
	for _, n := range []int{32, 64} {
		found, err := b.wholeRunsAt(ctx, server, n, peer, goals[n])
		rows = append(rows, found...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// wholeRunsAt plays n runs at a time.
func (b *bench) wholeRunsAt(ctx context.Context, server string, n int, peer *dbosPeer, g goal) ([]row, error) {
	byPorts, endPorts, err := b.runsByPorts(ctx, server, n)
	if err != nil {
		return nil, err
	}
	defer endPorts()
	byRunner, endRunner, err := b.runsByRunner(ctx, server, n)
	if err != nil {
		return nil, err
	}
	defer endRunner()
	sides := []side{
		{name: fmt.Sprintf("whole runs, %d at once", n), round: driven(n, one(byPorts))},
		{name: "by the runner", round: driven(n, one(byRunner))},
	}
	if peer != nil {
		sides = append(sides, side{name: "DBOS, workflows of 3 steps", round: driven(n, one(peer.workflow))})
	}
	s, err := b.contest(ctx, sides...)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, name := range []string{"whole runs, %d at once", "whole runs by the runner, %d at once"} {
		name = fmt.Sprintf(name, n)
		if peer == nil {
			rows = append(rows, alone(name, s, i, errNoPeers.why))
			continue
		}
		rows = append(rows, rates(name, s, i, 2, "DBOS Go, workflows of 3 steps,", g))
	}
	return rows, nil
}

// sessionsOfClient is how many sessions a client uses in turn, so that ledgers stay short: how runs cost more after
// longer ones is another measure.
const sessionsOfClient = 32

// rota hands out each client's sessions in turn.
type rota struct {
	refs []domain.SessionRef
	used []paddedSeq
}

func newRota(refs []domain.SessionRef, clients int) *rota {
	return &rota{refs: refs, used: make([]paddedSeq, clients)}
}

func (r *rota) next(client int) domain.SessionRef {
	i := int(r.used[client].n) % sessionsOfClient
	r.used[client].n++
	return r.refs[client*sessionsOfClient+i]
}

// runsByPorts returns what plays one run of a client's next session through the ports. One claimer serves all, as in a
// server: it claims whatever is due and hands it to whoever waits for it.
func (b *bench) runsByPorts(ctx context.Context, server string, n int) (play func(ctx context.Context, client int) error, end func(), err error) {
	r, at, err := b.freshRig(ctx, server)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	end = func() {
		cancel(nil)
		r.close()
	}
	refs, err := r.createAll(ctx, n*sessionsOfClient)
	if err == nil {
		err = tidyUp(ctx, at)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	handed := map[string]chan attempt{}
	for _, ref := range refs {
		handed[ref.Session] = make(chan attempt, 1)
	}
	go func() { cancel(r.handOut(ctx, handed)) }()
	turns := newRota(refs, n)
	return func(call context.Context, client int) error {
		ref := turns.next(client)
		if err := r.submit(call, ref); err != nil {
			return err
		}
		select {
		case a := <-handed[ref.Session]:
			return r.play(call, a)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(30 * time.Second):
			return errStuck
		}
	}, end, nil
}

// handOut claims until ctx ends.
func (r *rig) handOut(ctx context.Context, to map[string]chan attempt) error {
	due, cancel := r.wakeups.Subscribe(ports.QueueTopic)
	defer cancel()
	const batch = 64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-due:
		case <-time.After(time.Second):
		}
		for more := true; more; {
			claims, err := r.runs.Claim(ctx, ports.ClaimRequest{Process: r.process, Max: batch})
			if err != nil {
				return err
			}
			for _, c := range claims {
				to[c.Session.Ref.Session] <- attemptOf(c)
			}
			more = len(claims) == batch
		}
	}
}

// play commits an answer with a call, its result and the last answer, and settles.
func (r *rig) play(ctx context.Context, a attempt) error {
	call := newID()
	for _, cmd := range []domain.Command{
		domain.AppendAssistant{
			At: time.Now(), Run: a.run, Token: a.token, GenerationID: newID(), Payload: callPayload(a.input, call), Start: []string{call},
		},
		domain.AppendToolResult{At: time.Now(), Run: a.run, Token: a.token, Call: call, Payload: resultPayload(call)},
		domain.AppendAssistant{At: time.Now(), Run: a.run, Token: a.token, GenerationID: newID(), Payload: answerPayload(a.input)},
	} {
		if _, err := r.ledger.Do(ctx, a.ref, cmd); err != nil {
			return err
		}
	}
	return r.settle(ctx, a, domain.Success)
}

// runsByRunner returns what submits an input to a client's next session and waits until a runner has answered it.
func (b *bench) runsByRunner(ctx context.Context, server string, n int) (play func(ctx context.Context, client int) error, end func(), err error) {
	refs := newRefs(n * sessionsOfClient)
	ended := newFinishes(refs)
	r, at, err := b.freshRig(ctx, server, ended)
	if err != nil {
		return nil, nil, err
	}
	stop := func() {}
	end = func() {
		stop()
		r.close()
	}
	err = each(ctx, len(refs), b.conns, func(ctx context.Context, i int) error { return r.create(ctx, refs[i]) })
	if err == nil {
		err = tidyUp(ctx, at)
	}
	if err == nil {
		stop, err = r.startRunner(ctx, stubProvider{}, runner.Config{Workers: n})
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	turns := newRota(refs, n)
	return func(ctx context.Context, client int) error {
		ref := turns.next(client)
		if err := r.submit(ctx, ref); err != nil {
			return err
		}
		return ended.await(ctx, ref)
	}, end, nil
}
