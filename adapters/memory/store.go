// Package memory keeps everything in the process: the reference implementation of every store port, and the fan-out of
// wake-ups and partials of a single process. Nothing survives the process.
package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Config configures a Store.
type Config struct {
	Now      func() time.Time // the store's clock; nil means time.Now
	Notifier ports.Notifier   // is told of every commit; nil means nobody is
}

// Store is a ports.Ledger. Its other roles are views of it: Sessions, Runs, Processes, Settings and Secrets. It starts no goroutine and
// reads no clock but Config.Now.
//
// One mutex stands for every lock of commands.md. Rows are copied on the way in and out, so that no caller can change
// what is stored. Effects that break an invariant of the tables are refused with ErrCorrupt and nothing is written.
type Store struct {
	now      func() time.Time
	notifier ports.Notifier

	mu        sync.Mutex
	sessions  map[domain.SessionRef]*record
	runs      map[string]*record // by run id, which is unique in the store
	pending   map[string]*record // the pending ones of them
	running   map[string]*record // the running ones
	processes map[string]*ports.Process
	settings  map[settingKey]ports.Setting
	secrets   map[secretKey]ports.SealedSecret
	served    string // the tenant that was served last
}

var (
	_ ports.Ledger    = (*Store)(nil)
	_ ports.Sessions  = Sessions{}
	_ ports.Runs      = Runs{}
	_ ports.Processes = Processes{}
	_ ports.Settings  = Settings{}
	_ ports.Secrets   = Secrets{}
)

// Sessions is the Store as ports.Sessions.
type Sessions struct{ store *Store }

// Runs is the Store as ports.Runs.
type Runs struct{ store *Store }

// Processes is the Store as ports.Processes.
type Processes struct{ store *Store }

// New returns an empty store.
func New(c Config) *Store {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Notifier == nil {
		c.Notifier = nobody{}
	}
	return &Store{
		now:       c.Now,
		notifier:  c.Notifier,
		sessions:  map[domain.SessionRef]*record{},
		runs:      map[string]*record{},
		pending:   map[string]*record{},
		running:   map[string]*record{},
		processes: map[string]*ports.Process{},
		settings:  map[settingKey]ports.Setting{},
		secrets:   map[secretKey]ports.SealedSecret{},
	}
}

// Sessions returns the store's sessions.
func (s *Store) Sessions() Sessions { return Sessions{s} }

// Runs returns the store's runs.
func (s *Store) Runs() Runs { return Runs{s} }

// Processes returns the store's processes.
func (s *Store) Processes() Processes { return Processes{s} }

// locked calls do, which no other call meets, unless ctx has ended.
func (s *Store) locked(ctx context.Context, do func(*Store) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return do(s)
}

type nobody struct{}

func (nobody) Committed(ports.Commit) {}

// record is one session with all that belongs to it.
type record struct {
	row    domain.Session
	events []domain.Event
	keys   map[string]domain.Seq
	runs   map[string]domain.Run
	calls  []domain.ToolCall // by (AssistantSeq, Ordinal)
	callAt map[string]int    // index in calls
}

func newRecord() *record {
	return &record{keys: map[string]domain.Seq{}, runs: map[string]domain.Run{}, callAt: map[string]int{}}
}

// callsBefore returns the calls of the last assistant message with calls before seq.
func (r *record) callsBefore(seq domain.Seq) []domain.ToolCall {
	end, _ := slices.BinarySearchFunc(r.calls, seq, func(c domain.ToolCall, seq domain.Seq) int {
		return cmp.Compare(c.AssistantSeq, seq)
	})
	begin := end
	for begin > 0 && r.calls[begin-1].AssistantSeq == r.calls[end-1].AssistantSeq {
		begin--
	}
	return cloneCalls(r.calls[begin:end])
}

// openCalls returns the calls without a result. All of them are in one message: no other one is accepted while a call
// is open.
func (r *record) openCalls() []domain.ToolCall {
	return slices.DeleteFunc(r.callsBefore(r.row.HeadSeq+1), func(c domain.ToolCall) bool { return !c.Open() })
}

func cloneSession(s domain.Session) domain.Session {
	s.Fold = s.Fold.Clone()
	s.Tools = slices.Clone(s.Tools)
	s.Parent = clonePointer(s.Parent)
	s.ForkedFrom = clonePointer(s.ForkedFrom)
	return s
}

func cloneRun(r domain.Run) domain.Run {
	r.ClaimSeq = clonePointer(r.ClaimSeq)
	r.CancelSeq = clonePointer(r.CancelSeq)
	return r
}

func cloneCalls(calls []domain.ToolCall) []domain.ToolCall {
	out := slices.Clone(calls)
	for i := range out {
		out[i].StartedEpoch = clonePointer(out[i].StartedEpoch)
	}
	return out
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
