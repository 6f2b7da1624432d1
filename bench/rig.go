package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/keel-agent/keel/adapters/bus"
	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// rig is a store as a server holds it, with a registered process that runs what is claimed.
type rig struct {
	ledger    ports.Ledger
	sessions  ports.Sessions
	runs      ports.Runs
	processes ports.Processes
	wakeups   ports.Wakeups // nil when the rig is quiet
	process   string
	told      *runners
	close     func()
}

// runners hands every commit to the runner that is started on a rig, as a server does.
type runners struct{ to atomic.Pointer[runner.Runner] }

func (r *runners) Committed(c ports.Commit) {
	if to := r.to.Load(); to != nil {
		to.Committed(c)
	}
}

// notifiers hands every commit to each.
type notifiers []ports.Notifier

func (n notifiers) Committed(c ports.Commit) {
	for _, to := range n {
		to.Committed(c)
	}
}

// longLease outlives every run of the program.
const longLease = 24 * time.Hour

// postgresRig opens a store on a migrated database, with a bus as a server has it. also are told of commits too.
func (b *bench) postgresRig(ctx context.Context, at string, also ...ports.Notifier) (*rig, error) {
	across, err := postgres.OpenBus(postgres.BusConfig{URL: at})
	if err != nil {
		return nil, err
	}
	told := new(runners)
	r, err := b.quietPostgresRig(ctx, at, append(notifiers{across, told}, also...))
	if err != nil {
		across.Close()
		return nil, err
	}
	r.wakeups, r.told = across, told
	closeStore := r.close
	r.close = func() { across.Close(); closeStore() }
	return r, nil
}

// freshRig opens a store on a database of its own, which goes when it is closed.
func (b *bench) freshRig(ctx context.Context, server string, also ...ports.Notifier) (r *rig, at string, err error) {
	at, drop, err := keelDatabase(ctx, server)
	if err != nil {
		return nil, "", err
	}
	if r, err = b.postgresRig(ctx, at, also...); err != nil {
		drop()
		return nil, "", err
	}
	closeStore := r.close
	r.close = func() { closeStore(); drop() }
	return r, at, nil
}

// quietPostgresRig opens a store that tells of commits only to, nobody when that is nil.
func (b *bench) quietPostgresRig(ctx context.Context, at string, to ports.Notifier) (*rig, error) {
	s, err := postgres.Open(ctx, postgres.Config{URL: at, MaxConns: b.conns, Notifier: to})
	if err != nil {
		return nil, err
	}
	r := &rig{ledger: s, sessions: s.Sessions(), runs: s.Runs(), processes: s.Processes(), process: newID(), close: s.Close}
	return r, r.register(ctx)
}

// sqliteRig opens a store on a new file.
func (b *bench) sqliteRig(ctx context.Context, also ...ports.Notifier) (*rig, error) {
	path := filepath.Join(b.dir, newID()+".db")
	if _, err := sqlite.Migrate(ctx, path); err != nil {
		return nil, err
	}
	hub, told := new(bus.Hub), new(runners)
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path, Notifier: append(notifiers{hub, told}, also...)})
	if err != nil {
		return nil, err
	}
	r := &rig{
		ledger: s, sessions: s.Sessions(), runs: s.Runs(), processes: s.Processes(), wakeups: hub, process: newID(), told: told,
		close: s.Close,
	}
	return r, r.register(ctx)
}

// memoryRig returns an empty store.
func memoryRig(ctx context.Context, also ...ports.Notifier) (*rig, error) {
	hub, told := new(bus.Hub), new(runners)
	s := memory.New(memory.Config{Notifier: append(notifiers{hub, told}, also...)})
	r := &rig{
		ledger: s, sessions: s.Sessions(), runs: s.Runs(), processes: s.Processes(), wakeups: hub, process: newID(), told: told,
		close: func() {},
	}
	return r, r.register(ctx)
}

func (r *rig) register(ctx context.Context) error {
	return r.processes.Register(ctx, r.process, "bench", longLease)
}

// tenant owns all sessions of the benchmark.
const tenant = "default"

func refTo(session string) domain.SessionRef {
	return domain.SessionRef{Tenant: tenant, Session: session}
}

// newRefs names n sessions.
func newRefs(n int) []domain.SessionRef {
	refs := make([]domain.SessionRef, n)
	for i := range refs {
		refs[i] = refTo(newID())
	}
	return refs
}

func (r *rig) create(ctx context.Context, ref domain.SessionRef) error {
	_, err := r.ledger.Do(ctx, ref, domain.CreateSession{
		At: time.Now(), Request: domain.StoredPayload(`{"id":"` + ref.Session + `"}`), Info: domain.SessionInfo{Tools: []string{stubTool}},
	})
	return err
}

// createAll makes n sessions.
func (r *rig) createAll(ctx context.Context, n int) ([]domain.SessionRef, error) {
	refs := newRefs(n)
	return refs, each(ctx, n, 32, func(ctx context.Context, i int) error { return r.create(ctx, refs[i]) })
}

// submit commits an input of 1 KiB with the run that will answer it.
func (r *rig) submit(ctx context.Context, ref domain.SessionRef) error {
	key := newID()
	_, err := r.ledger.Do(ctx, ref, domain.SubmitInput{At: time.Now(), RequestID: key, Payload: inputPayload(key), NewRun: newID()})
	return err
}

// attempt is a claimed run.
type attempt struct {
	ref   domain.SessionRef
	run   string
	token domain.Token
	input domain.Seq
}

func attemptOf(c ports.Claim) attempt {
	return attempt{
		ref: c.Session.Ref, run: c.Run.ID, token: domain.Token{Process: c.Session.Owner, Epoch: c.Run.Epoch}, input: *c.Run.ClaimSeq,
	}
}

// claimed makes n sessions whose runs are claimed.
func (r *rig) claimed(ctx context.Context, n int) ([]attempt, error) {
	refs, err := r.createAll(ctx, n)
	if err != nil {
		return nil, err
	}
	if err := each(ctx, n, 32, func(ctx context.Context, i int) error { return r.submit(ctx, refs[i]) }); err != nil {
		return nil, err
	}
	return r.claim(ctx, n)
}

// claim claims n runs.
func (r *rig) claim(ctx context.Context, n int) ([]attempt, error) {
	var attempts []attempt
	for len(attempts) < n {
		claims, err := r.runs.Claim(ctx, ports.ClaimRequest{Process: r.process, Max: min(64, n-len(attempts))})
		if err != nil {
			return nil, err
		}
		if len(claims) == 0 {
			return nil, fmt.Errorf("only %d of %d runs could be claimed", len(attempts), n)
		}
		for _, c := range claims {
			attempts = append(attempts, attemptOf(c))
		}
	}
	return attempts, nil
}

// append commits a fenced assistant message of 1 KiB.
func (r *rig) append(ctx context.Context, a attempt) error {
	_, err := r.ledger.Do(ctx, a.ref, domain.AppendAssistant{
		At: time.Now(), Run: a.run, Token: a.token, GenerationID: newID(), Payload: messagePayload,
	})
	return err
}

// settle ends the attempt and its run.
func (r *rig) settle(ctx context.Context, a attempt, result domain.Result) error {
	_, err := r.ledger.Do(ctx, a.ref, domain.Settle{
		At: time.Now(), Run: a.run, Token: a.token, Result: result, Summary: domain.Summary{Turns: 1, Provider: "stub", Model: "stub"},
		NewRun: newID(),
	})
	return err
}

// kibibyte is the size of every payload.
const kibibyte = 1024

// filler is text that does not compress.
var filler = func() string {
	raw := make([]byte, kibibyte)
	chance := rand.New(rand.NewPCG(1, 2))
	for i := range raw {
		raw[i] = byte(chance.Uint32())
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}()

// messagePayload is the row's payload of every append that is compared with a bare insert.
var messagePayload = sized(`{"content":[{"type":"text","text":"`, `"}],"inputSeqs":[],"stopReason":"end_turn"}`)

func inputPayload(key string) domain.Payload { return sized(`{"requestId":"`+key+`","text":"`, `"}`) }

// callPayload is an answer that lists an input and calls the stub tool once.
func callPayload(input domain.Seq, call string) domain.Payload {
	return sized(`{"content":[{"type":"text","text":"`, `"},{"type":"toolCall","id":"`+call+`","name":"`+stubTool+`","arguments":{}}],"inputSeqs":[`+
		strconv.FormatInt(int64(input), 10)+`],"stopReason":"tool_use"}`)
}

func resultPayload(call string) domain.Payload {
	return sized(`{"toolCallId":"`+call+`","content":[{"type":"text","text":"`, `"}],"isError":false}`)
}

func answerPayload(input domain.Seq) domain.Payload {
	return sized(`{"content":[{"type":"text","text":"`, `"}],"inputSeqs":[`+strconv.FormatInt(int64(input), 10)+`],"stopReason":"end_turn"}`)
}

// sized returns before, filler and after, together of one kibibyte.
func sized(before, after string) domain.Payload {
	return domain.StoredPayload(before + filler[:kibibyte-len(before)-len(after)] + after)
}

var (
	idPrefix = strings.TrimLeft(strconv.FormatInt(time.Now().UnixNano(), 36), "-")
	idCount  atomic.Int64
)

// newID returns a new id; later ones are greater.
func newID() string { return fmt.Sprintf("%s-%010d", idPrefix, idCount.Add(1)) }
