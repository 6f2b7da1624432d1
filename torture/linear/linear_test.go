package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// store is one way to the data. Two of them may lead to the same.
type store struct {
	ports.Ledger
	sessions ports.Sessions
}

type nobody struct{}

func (nobody) Committed(ports.Commit) {}

func openMemory(*testing.T) []store {
	s := memory.New(memory.Config{Notifier: nobody{}})
	return []store{{s, s.Sessions()}}
}

func openSQLite(t *testing.T) []store {
	path := filepath.Join(t.TempDir(), "keel.db")
	if _, err := sqlite.Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Notifier: nobody{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return []store{{s, s.Sessions()}}
}

// openPostgres returns two stores on one database, as two processes have them.
func openPostgres(t *testing.T) []store {
	at := postgrestest.Database(t, "")
	if _, err := postgres.Migrate(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	var stores []store
	for range 2 {
		s, err := postgres.Open(t.Context(), postgres.Config{URL: at, MaxConns: 16, Notifier: nobody{}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		stores = append(stores, store{s, s.Sessions()})
	}
	return stores
}

// client is one of several that use the same sessions.
type client struct {
	id       int
	store    store
	rng      *rand.Rand
	sessions []string
	began    time.Time
	history  []porcupine.Operation
}

const (
	clients  = 32 // enough for the stores to commit in groups
	sessions = 8
	steps    = 25
	keys     = 60 // of a session: clients meet at the same key, and come back to it
)

func (c *client) play(ctx context.Context) error {
	for n := range steps {
		in := call{session: c.sessions[c.rng.IntN(len(c.sessions))]}
		switch x := c.rng.IntN(100); {
		case x < 55:
			in.op, in.key, in.newRun = "submit", fmt.Sprint("k", c.rng.IntN(keys)), fmt.Sprintf("%s-run-%d-%d", in.session, c.id, n)
		case x < 80:
			in.op, in.after = "events", c.rng.IntN(20)
		case x < 97:
			in.op = "head"
		default:
			in.op = "cancel"
		}
		called := time.Since(c.began)
		out, err := c.ask(ctx, in)
		if err != nil {
			return fmt.Errorf("%+v: %w", in, err)
		}
		c.history = append(c.history, porcupine.Operation{
			ClientId: c.id, Input: in, Output: out, Call: called.Nanoseconds(), Return: time.Since(c.began).Nanoseconds(),
		})
	}
	return nil
}

var at = domain.Millis(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))

func (c *client) ask(ctx context.Context, in call) (reply, error) {
	ref := domain.SessionRef{Tenant: "t", Session: in.session}
	switch in.op {
	case "submit":
		out, err := c.store.Do(ctx, ref, domain.SubmitInput{At: at, RequestID: in.key, Payload: domaintest.User(in.key, "text of "+in.key), NewRun: in.newRun})
		if err != nil {
			return reply{}, err
		}
		return reply{seq: int(out.Event.Seq), created: out.Created, run: out.Event.RunID}, nil
	case "cancel":
		out, err := c.store.Do(ctx, ref, domain.RequestCancel{})
		return reply{cancelSeq: cancelSeq(out.Run)}, err
	case "head":
		s, run, err := c.store.sessions.Get(ctx, ref)
		return reply{head: int(s.HeadSeq), run: s.ActiveRun, cancelSeq: cancelSeq(run)}, err
	}
	events, err := c.store.Events(ctx, ref, domain.Seq(in.after), 1000)
	var out reply
	for _, e := range events {
		out.seqs, out.keys = append(out.seqs, int(e.Seq)), append(out.keys, strings.TrimPrefix(e.Key, "requestId:"))
	}
	return out, err
}

func cancelSeq(run *domain.Run) int {
	if run == nil || run.CancelSeq == nil {
		return -1
	}
	return int(*run.CancelSeq)
}

// record lets clients loose on the stores and returns what they saw.
func record(t *testing.T, stores []store, seed uint64) []porcupine.Operation {
	t.Helper()
	var names []string
	for i := range sessions {
		name := fmt.Sprintf("s%d-%d", seed, i)
		names = append(names, name)
		ref := domain.SessionRef{Tenant: "t", Session: name}
		if _, err := stores[0].Do(t.Context(), ref, domain.CreateSession{At: at, Request: domaintest.Payload(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	all := make([]*client, clients)
	var group sync.WaitGroup
	for i := range all {
		c := &client{id: i, store: stores[i%len(stores)], rng: rand.New(rand.NewPCG(seed, uint64(i))), sessions: names, began: began}
		all[i] = c
		group.Go(func() {
			if err := c.play(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	var history []porcupine.Operation
	for _, c := range all {
		history = append(history, c.history...)
	}
	return history
}

const searchLimit = time.Minute

// Whatever clients see of a session, from however many processes, could have happened one step after the other.
func TestHistoriesAreLinearizable(t *testing.T) {
	for name, open := range map[string]func(*testing.T) []store{"memory": openMemory, "sqlite": openSQLite, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stores := open(t)
			for seed := range uint64(5) {
				history := record(t, stores, seed)
				result, info := porcupine.CheckOperationsVerbose(model, history, searchLimit)
				if result != porcupine.Ok {
					t.Fatalf("seed %d: the history of %d operations is %s:\n%s", seed, len(history), result, longest(info))
				}
			}
		})
	}
}

// longest describes the partitions' longest prefixes that could be put in order.
func longest(info porcupine.LinearizationInfo) string {
	var b strings.Builder
	for _, partition := range info.PartialLinearizationsOperations() {
		for i, ops := range partition {
			if i > 0 {
				break
			}
			fmt.Fprintf(&b, "-- %d in order, the last ones:\n", len(ops))
			for _, op := range ops[max(0, len(ops)-5):] {
				fmt.Fprintln(&b, model.DescribeOperation(op.Input, op.Output))
			}
		}
	}
	return b.String()
}

// planted are replies that no sequential ledger gives: each changes the first reply that it can change.
var planted = map[string]func(in call, out *reply) bool{
	"a lost read": func(in call, out *reply) bool {
		n := len(out.keys)
		if in.op != "events" || n < 2 {
			return false
		}
		out.keys, out.seqs = out.keys[:n-1], out.seqs[:n-1]
		return true
	},
	"a gap": func(in call, out *reply) bool {
		n := len(out.seqs)
		if in.op != "events" || n < 2 {
			return false
		}
		out.seqs[n-1]++
		return true
	},
	"two in the wrong order": func(in call, out *reply) bool {
		n := len(out.keys)
		if in.op != "events" || n < 2 {
			return false
		}
		out.keys[0], out.keys[1] = out.keys[1], out.keys[0]
		return true
	},
	"a burned seq": func(in call, out *reply) bool {
		if in.op != "submit" || !out.created {
			return false
		}
		out.seq++
		return true
	},
	"a replay that was created": func(in call, out *reply) bool {
		if in.op != "submit" || out.created {
			return false
		}
		out.created = true
		return true
	},
	"another run behind the cancel": func(in call, out *reply) bool {
		if in.op != "submit" || !out.created || out.seq < 2 {
			return false
		}
		out.run += "x"
		return true
	},
	"a stale head": func(in call, out *reply) bool {
		if in.op != "head" || out.head < 2 {
			return false
		}
		out.head--
		return true
	},
	"a forgotten cancel": func(in call, out *reply) bool {
		if in.op != "cancel" || out.cancelSeq < 0 {
			return false
		}
		out.cancelSeq = -1
		return true
	},
}

// The check can fail: one client's history, in which nothing is concurrent, is no longer accepted once a reply is false.
func TestPlantedRepliesAreFound(t *testing.T) {
	for name, plant := range planted {
		t.Run(name, func(t *testing.T) {
			stores := openMemory(t)
			ref := domain.SessionRef{Tenant: "t", Session: "s"}
			if _, err := stores[0].Do(t.Context(), ref, domain.CreateSession{At: at, Request: domaintest.Payload(`{}`)}); err != nil {
				t.Fatal(err)
			}
			c := &client{store: stores[0], rng: rand.New(rand.NewPCG(1, 2)), sessions: []string{"s"}, began: time.Now()}
			for range 10 {
				if err := c.play(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if !porcupine.CheckOperations(model, c.history) {
				t.Fatal("the true history is refused")
			}
			for i := range c.history {
				out := c.history[i].Output.(reply)
				if !plant(c.history[i].Input.(call), &out) {
					continue
				}
				c.history[i].Output = out
				if porcupine.CheckOperations(model, c.history) {
					t.Errorf("accepted: %s", model.DescribeOperation(c.history[i].Input, out))
				}
				return
			}
			t.Fatal("nothing in the history could be changed")
		})
	}
}
