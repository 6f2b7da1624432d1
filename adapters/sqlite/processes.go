package sqlite

import (
	"context"
	"errors"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/keel-agent/keel/ports"
)

// processes implements ports.Processes by the store's clock.
type processes struct{ s *Store }

// errProcessIDUsed is a fault of the caller: ids of processes are minted anew at each start.
var errProcessIDUsed = errors.New("the process id was used before")

const (
	registerText = "INSERT INTO processes (process_id, address, started_at, expires_at, draining, dead)" +
		" VALUES (?1, ?2, ?3, ?3 + ?4, false, false)"
	renewText      = "UPDATE processes SET expires_at = ?2 + ?3 WHERE process_id = ?1 AND NOT dead AND expires_at > ?2"
	drainText      = "UPDATE processes SET draining = true WHERE process_id = ?1 AND NOT dead AND expires_at > ?2"
	deregisterText = "UPDATE processes SET dead = true WHERE process_id = ?1"
	endAllText     = "UPDATE processes SET dead = true WHERE NOT dead"
	ownedText      = "SELECT tenant_id, session_id, run_id, epoch FROM runs WHERE owner = ?1 AND status = 'running'"
	cancelledText  = "SELECT tenant_id, session_id, run_id, epoch FROM runs" +
		" WHERE owner = ?1 AND status = 'running' AND cancel_seq IS NOT NULL"

	buryText = "UPDATE processes SET dead = true WHERE NOT dead AND expires_at <= ?1"
	// orphansText yields the running runs of dead processes and of those without a row.
	orphansText = "SELECT r.tenant_id, r.session_id, r.run_id FROM runs AS r LEFT JOIN processes AS p ON p.process_id = r.owner" +
		" WHERE r.status = 'running' AND (p.process_id IS NULL OR p.dead) ORDER BY r.run_id"
	forgetText = "DELETE FROM processes WHERE dead AND NOT EXISTS" +
		" (SELECT 1 FROM runs AS r WHERE r.owner = processes.process_id AND r.status = 'running')"
	// nextText yields how long the lease that runs out next still lasts: nothing when somebody is dead, or nobody lives.
	nextText = "SELECT coalesce(min(CASE WHEN dead THEN 0 ELSE expires_at - ?1 END), 0) FROM processes"
)

// Register implements ports.Processes.
func (p processes) Register(ctx context.Context, id, address string, ttl time.Duration) error {
	err := p.set(ctx, false, registerText, id, address, p.s.nowMS(), ttl.Milliseconds())
	var fault *sqlite.Error
	if errors.As(err, &fault) && fault.Code()&0xff == sqlite3.SQLITE_CONSTRAINT {
		return errProcessIDUsed
	}
	return err
}

// Renew implements ports.Processes.
func (p processes) Renew(ctx context.Context, id string, ttl time.Duration) (owned []ports.Owned, err error) {
	err = p.s.writing(ctx, func(t tx) (bool, error) {
		n, err := t.exec(renewText, id, p.s.nowMS(), ttl.Milliseconds())
		if err == nil && n == 0 {
			err = ports.ErrProcessDead
		}
		if err != nil {
			return false, err
		}
		owned, err = ownedBy(t, cancelledText, id)
		return true, err
	}, nil)
	return owned, err
}

// Owned implements ports.Processes.
func (p processes) Owned(ctx context.Context, id string) (owned []ports.Owned, err error) {
	err = p.s.reading(ctx, func(q querier) error {
		owned, err = ownedBy(q, ownedText, id)
		return err
	})
	return owned, err
}

func ownedBy(q querier, text, process string) (owned []ports.Owned, err error) {
	var o ports.Owned
	err = each(q, text, []any{process}, []any{&o.Ref.Tenant, &o.Ref.Session, &o.Run, &o.Epoch}, func() error {
		owned = append(owned, o)
		return nil
	})
	return owned, err
}

// SetDraining implements ports.Processes; it returns ErrProcessDead like Renew.
func (p processes) SetDraining(ctx context.Context, id string) error {
	return p.set(ctx, true, drainText, id, p.s.nowMS())
}

// Deregister implements ports.Processes. A missing row is as good as a dead one.
func (p processes) Deregister(ctx context.Context, id string) error {
	return p.set(ctx, false, deregisterText, id)
}

// endAll marks every process dead, for whoever has the lock of the file is the only one that lives.
func (p processes) endAll(ctx context.Context) error { return p.set(ctx, false, endAllText) }

// set runs one statement; when it must find a live process and finds none, the process is dead.
func (p processes) set(ctx context.Context, live bool, text string, args ...any) error {
	return p.s.writing(ctx, func(t tx) (bool, error) {
		n, err := t.exec(text, args...)
		if err == nil && live && n == 0 {
			err = ports.ErrProcessDead
		}
		return true, err
	}, nil)
}

// Bury implements ports.Processes. It writes only when somebody is dead, or nobody lives.
func (p processes) Bury(ctx context.Context) (orphans []ports.RunRef, next time.Duration, err error) {
	err = p.s.writing(ctx, func(t tx) (write bool, err error) {
		orphans, next = nil, 0
		var left int64
		err = each(t, nextText, []any{p.s.nowMS()}, []any{&left}, func() error { return nil })
		write = left <= 0
		if err == nil && write {
			_, err = t.exec(buryText, p.s.nowMS())
		}
		if err != nil {
			return false, err
		}
		var o ports.RunRef
		err = each(t, orphansText, nil, []any{&o.Ref.Tenant, &o.Ref.Session, &o.Run}, func() error {
			orphans = append(orphans, o)
			return nil
		})
		if err == nil && write {
			_, err = t.exec(forgetText)
		}
		if err == nil && len(orphans) == 0 {
			next = time.Duration(max(left, 0)) * time.Millisecond
		}
		return write, err
	}, nil)
	return orphans, next, err
}

// List implements ports.Processes.
func (p processes) List(ctx context.Context) ([]ports.Process, error) {
	list, err := p.s.lists.Processes(ctx)
	return list, translate(ctx, err)
}
