package ports

import (
	"context"
	"errors"
	"time"

	"github.com/keel-agent/keel/domain"
)

// ErrProcessDead is returned to a process whose row is missing, dead or expired: it must stop every attempt and
// register anew under a new id.
var ErrProcessDead = errors.New("the process's lease has expired")

// Processes keeps one liveness row per server process, judged by the store's clock alone.
type Processes interface {
	// Register inserts a new live process that expires ttl from now. The id must never have been used before.
	Register(ctx context.Context, id, address string, ttl time.Duration) error

	// Renew extends the process's life to ttl from now and returns those of its runs whose cancel was asked for: the
	// wake-ups may have been lost. It costs the same whatever the process runs. It returns ErrProcessDead when the row is
	// missing, dead or already expired; such a row is never revived.
	//
	// More it need not say. The lease is the process's, so all of its runs live or die with the row: nobody takes a run from
	// a process whose row is not dead (domain.Rescue), the dead never renew, and what a process that was stopped beyond its
	// lease still writes is refused by the epoch. So no run is lost to a process that renews but by its own commands.
	Renew(ctx context.Context, id string, ttl time.Duration) ([]Owned, error)

	// Owned returns all running runs of the process, in any order. The process compares them with what it plays when a call of
	// Claim failed, for that may have claimed, and now and then: what was sent over a connection that was given up may come
	// through at any later time.
	Owned(ctx context.Context, id string) ([]Owned, error)

	// SetDraining marks the process as draining: it claims nothing more.
	SetDraining(ctx context.Context, id string) error

	// Deregister marks the process dead at once; what it still owned is rescued. Dead rows that no run names are
	// removed by Bury.
	Deregister(ctx context.Context, id string) error

	// Bury marks expired processes dead, finally, and returns the running runs of all dead processes: each wants a
	// domain.Rescue. next is how long it is, by the store's clock, until the next process expires unless it is renewed. It is
	// 0 when that is not the whole truth: somebody was dead or expired, and may be still, there are orphans, or nobody lives.
	Bury(ctx context.Context) (orphans []RunRef, next time.Duration, err error)

	// List returns all process rows, oldest first.
	List(ctx context.Context) ([]Process, error)
}

// Owned is a running run of a process, and the epoch of its attempt.
type Owned struct {
	Ref   domain.SessionRef
	Run   string
	Epoch int64
}

// RunRef names a run of a session.
type RunRef struct {
	Ref domain.SessionRef
	Run string
}

// Process is one liveness row.
type Process struct {
	ID        string
	Address   string
	StartedAt time.Time
	ExpiresAt time.Time
	Draining  bool
	Dead      bool
}
