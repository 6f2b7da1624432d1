package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/keel-agent/keel/torture/backend"
	"github.com/keel-agent/keel/torture/check"
	"github.com/keel-agent/keel/torture/plan"
)

// scenario is one run: a store, a plan and its clients.
type scenario struct {
	plan.Options
	Name     string
	Store    string // sqlite or postgres
	Clients  int
	Patience time.Duration // how long an acknowledgement may take; 0 is no bound
	Quiet    time.Duration // how long the last run may take behind the last fault
}

// outcome is what a scenario showed.
type outcome struct {
	scenario
	did        map[string]int
	missed     int
	took       time.Duration
	quietAfter time.Duration
	figures    check.Figures
	load       *load
	asked      int64
	failed     int64
	violations []check.Violation
	history    check.History
	ledger     check.Ledger
	dir        string
}

// rig is what all scenarios share.
type rig struct {
	binary string
	dir    string
	say    func(format string, args ...any)
}

// play runs a scenario in a directory of its own.
func (r *rig) play(ctx context.Context, s scenario) (outcome, error) {
	o := outcome{scenario: s, dir: filepath.Join(r.dir, s.Name), did: map[string]int{}}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return o, err
	}
	store, own, drop, err := r.openStore(ctx, s, o.dir)
	if err != nil {
		return o, err
	}
	defer drop()
	model, err := backend.Start(ctx)
	if err != nil {
		return o, err
	}
	defer model.Close()
	log, err := newJournal(filepath.Join(o.dir, clientsFile))
	if err != nil {
		return o, err
	}
	defer func() { _ = log.close() }()
	f := &fleet{
		binary: r.binary, dir: o.dir, store: store, backend: model.URL(), effects: filepath.Join(o.dir, "effects"), journal: log,
		shaky: s.terms().LostReplies,
	}
	if err := f.open(ctx, s.Servers); err != nil {
		return o, err
	}
	defer f.close()
	p := plan.New(s.Options)
	if err := writePlan(p, s.Clients, filepath.Join(o.dir, "plan.txt")); err != nil {
		return o, err
	}
	t := &trial{scenario: s, rig: r, fleet: f, model: model, log: log, plan: p, out: &o,
		faults: &faults{fleet: f, cluster: own, store: store, say: r.say, did: o.did}}
	began := time.Now()
	err = t.run(ctx)
	o.took, o.missed = time.Since(began), t.faults.missed
	o.asked, o.failed = model.Asked()
	return o, err
}

// openStore makes the store of a scenario. Postgres is a server of its own where that is to be restarted.
func (r *rig) openStore(ctx context.Context, s scenario, dir string) (store string, own *cluster, drop func(), err error) {
	if s.Store == "sqlite" {
		return "sqlite:" + filepath.Join(dir, "keel.db"), nil, func() {}, nil
	}
	if !slices.Contains(s.Faults, plan.Restart) {
		server := os.Getenv(urlVariable)
		if server == "" {
			return "", nil, nil, fmt.Errorf("%s is not set: use scripts/with-postgres.sh go run ./torture", urlVariable)
		}
		store, drop, err = freshDatabase(ctx, server)
		return store, nil, drop, err
	}
	own, err = newCluster(ctx, dir)
	if err != nil {
		return "", nil, nil, err
	}
	store, _, err = freshDatabase(ctx, own.url())
	return store, own, own.close, err
}

func writePlan(p plan.Plan, clients int, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(p.Print(f, clients, 200), f.Close())
}

// trial is a scenario under way.
type trial struct {
	scenario
	rig    *rig
	fleet  *fleet
	model  *backend.Server
	log    *journal
	plan   plan.Plan
	faults *faults
	db     *database
	out    *outcome
}

// run breaks what can be broken while the clients work, lets all come to rest, and judges.
func (t *trial) run(ctx context.Context) error {
	if err := t.faults.begin(ctx); err != nil {
		return err
	}
	var err error
	if t.db, err = openDatabase(t.fleet.store); err != nil {
		return err
	}
	defer t.db.close()
	ended, end := context.WithCancel(ctx)
	defer end()
	limit, abandon := context.WithCancel(ctx)
	defer abandon()
	l := newLoad(t.Seed, t.fleet.urls(), t.log)
	l.ended, l.limit = ended, limit
	t.out.load = l
	l.startClients(t.Clients)
	if err := t.faults.play(ctx, t.plan); err != nil {
		return err
	}
	lastFault := time.Now()
	end()
	t.model.Heal()
	t.rig.say("the last fault is over, %d inputs so far", l.inputs.Load())
	var written atomic.Bool
	time.AfterFunc(t.Quiet, func() {
		if !written.Load() { // the readers have their own time
			abandon()
		}
	})
	if err := t.fleet.allReady(ctx); err != nil {
		return err
	}
	l.group.Wait()
	written.Store(true)
	t.out.quietAfter = t.rest(ctx, lastFault)
	return t.judge(ctx, l)
}

// rest waits until no run is left, as long as the scenario allows.
func (t *trial) rest(ctx context.Context, since time.Time) time.Duration {
	for {
		n, some, err := t.db.active(ctx)
		took := time.Since(since)
		if err == nil && n == 0 || took > t.Quiet || ctx.Err() != nil {
			t.rig.say("%d runs are left after %.1f s %s", n, took.Seconds(), strings.Join(some, ", "))
			return took
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// judge looks at the ledger at rest, asks one more question in every session, and hands all to the checker.
func (t *trial) judge(ctx context.Context, l *load) error {
	before, err := t.db.ledger(ctx)
	if err != nil {
		return err
	}
	after, err := t.last(ctx, l, before)
	if err != nil {
		return err
	}
	l.heads = map[[2]string]int64{}
	for _, s := range after.Sessions {
		l.heads[[2]string{s.Tenant, s.Session}] = s.Head
	}
	l.finish()
	wait(&l.reads, t.Quiet)
	t.pages(l, after)
	if err := t.effects(); err != nil {
		return err
	}
	faulty, err := t.verify(ctx)
	if err != nil {
		return err
	}
	if err := t.log.flush(); err != nil {
		return err
	}
	return t.check(before, after, faulty)
}

// last submits one more input to each session and waits for the answers: whatever was left over is answered with it.
func (t *trial) last(ctx context.Context, l *load, before check.Ledger) (check.Ledger, error) {
	limit, cancel := context.WithTimeout(ctx, t.Quiet)
	defer cancel()
	final := newLoad(t.Seed, l.urls, t.log)
	final.limit = limit
	for _, s := range before.Sessions {
		if s.Session == onlyOf(s.Tenant) {
			continue
		}
		w := &writer{caller: caller{load: final, tenant: s.Tenant}}
		id := check.RequestID(s.Tenant, s.Session, "last")
		w.submit(check.Submit{Tenant: s.Tenant, Session: s.Session, RequestID: id, Text: check.Token(id), Note: "1"}, false)
	}
	t.rest(ctx, time.Now())
	return t.db.ledger(ctx)
}

// pages reads every session from every server by snapshots.
func (t *trial) pages(l *load, after check.Ledger) {
	for i, s := range after.Sessions {
		c := caller{load: l, tenant: s.Tenant, server: i % len(l.urls)}
		for cursor, more := int64(0), true; more; {
			cursor, more = c.page(s.Session, cursor)
		}
	}
}

// effects copies what the servers wrote down of their tools into the log.
func (t *trial) effects() error {
	text, err := os.ReadFile(t.fleet.effects)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			return fmt.Errorf("effects: %q", line)
		}
		t.log.add(check.Record{Effect: &check.Effect{Tenant: f[0], Session: f[1], Call: f[2], Tool: f[3]}})
	}
	return nil
}

// verify runs keel verify, and returns what it found.
func (t *trial) verify(ctx context.Context) ([]check.Violation, error) {
	cmd := exec.CommandContext(ctx, t.fleet.binary, "verify", "--store", t.fleet.store)
	cmd.Env = plainEnvironment()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &exit):
		return []check.Violation{{Kind: check.VerifyFault, Detail: strings.TrimSpace(string(out))}}, nil
	}
	return nil, err
}

// check writes the rows beside the clients' log, reads both back and has them judged.
func (t *trial) check(before, after check.Ledger, faulty []check.Violation) error {
	if err := dump(after, filepath.Join(t.out.dir, ledgerFile)); err != nil {
		return err
	}
	history, ledger, err := readBack(t.out.dir)
	if err != nil {
		return err
	}
	t.out.history, t.out.ledger = history, ledger
	t.out.figures = check.Count(history, ledger)
	t.out.violations = slices.Concat(faulty, check.Quiet(history, before), check.Grown(before, ledger), check.Check(history, ledger, t.terms()))
	return nil
}

func (s *scenario) terms() check.Terms {
	return check.Terms{Patience: s.Patience.Milliseconds(), LostReplies: slices.ContainsFunc(s.Faults, plan.Fault.OfDatabase)}
}

// Files of a run.
const (
	clientsFile = "clients.jsonl"
	ledgerFile  = "ledger.jsonl"
)

func dump(l check.Ledger, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	return errors.Join(l.Write(out), out.Flush(), f.Close())
}

// readBack reads what a run left in dir.
func readBack(dir string) (check.History, check.Ledger, error) {
	clients, err := os.Open(filepath.Join(dir, clientsFile))
	if err != nil {
		return check.History{}, check.Ledger{}, err
	}
	defer func() { _ = clients.Close() }()
	rows, err := os.Open(filepath.Join(dir, ledgerFile))
	if err != nil {
		return check.History{}, check.Ledger{}, err
	}
	defer func() { _ = rows.Close() }()
	history, err := check.ReadHistory(clients)
	if err != nil {
		return check.History{}, check.Ledger{}, fmt.Errorf("%s: %w", clientsFile, err)
	}
	ledger, err := check.ReadLedger(rows)
	if err != nil {
		return check.History{}, check.Ledger{}, fmt.Errorf("%s: %w", ledgerFile, err)
	}
	return history, ledger, nil
}

// wait waits for a group, but not for ever.
func wait(group interface{ Wait() }, limit time.Duration) {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// pointName is the point without its number.
func pointName(at string) string { return at[:strings.LastIndexByte(at, ':')] }

func names(did map[string]int) []string { return slices.Sorted(maps.Keys(did)) }
