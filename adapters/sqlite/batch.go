package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"slices"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// maxBatch is how many jobs share a transaction at most.
const maxBatch = 256

// job is something to be done in a writing transaction, which it may share with others: it sees what those before it
// have changed. It may be done again after a rollback.
type job struct {
	ctx  context.Context
	do   func(tx tx) (write bool, err error) // changes nothing unless it returns write, or an error that no refusal is
	tell func()                              // called after the commit, before that of the next job; nil tells nobody

	done     chan struct{}
	write    bool
	err      error
	panicked any
}

// errPanicked is the error of a job that panicked, until its caller panics with the same.
var errPanicked = errors.New("panicked")

// do carries out j and returns its error. It waits for its turn as long as j.ctx lives; once it has begun, the end of
// the context no longer matters.
//
// There is no goroutine that writes: whoever has the turn takes all jobs that wait into one transaction, so that a lone
// job is begun at once, by its own goroutine.
func (w *writer) do(j *job) error {
	j.done = make(chan struct{})
	w.mu.Lock()
	w.queue = append(w.queue, j)
	w.mu.Unlock()
	select {
	case <-j.done:
	case <-w.turn:
		w.lead(j)
	case <-w.closed:
		if w.leave(j) {
			return sql.ErrConnDone
		}
		<-j.done
	case <-j.ctx.Done():
		if w.leave(j) {
			return j.ctx.Err()
		}
		<-j.done
	}
	if j.panicked != nil {
		panic(j.panicked)
	}
	return j.err
}

// leave takes j out of the queue; false means that it has been taken into a batch.
func (w *writer) leave(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, j)
	if i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
	return i >= 0
}

// lead carries out batches until j has been in one. The caller has the turn and loses it.
func (w *writer) lead(j *job) {
	defer func() { w.turn <- struct{}{} }()
	for {
		select {
		case <-j.done:
			return
		default:
		}
		batch := w.take()
		if w.crowd != nil {
			batch = w.crowd(batch)
		}
		w.carryOut(batch)
		for _, j := range batch {
			if j.err == nil && j.write && j.tell != nil {
				j.guard(j.tell)
			}
			close(j.done)
		}
		if len(batch) > 1 {
			runtime.Gosched() // those who were just answered may have more for the next batch
		}
	}
}

// take returns the next batch, without those whose callers have gone.
func (w *writer) take() []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch)
	batch := make([]*job, 0, n)
	for _, j := range w.queue[:n] {
		if j.err = j.ctx.Err(); j.err == nil {
			batch = append(batch, j)
		} else {
			close(j.done)
		}
	}
	w.queue = slices.Delete(w.queue, 0, n)
	return batch
}

// carryOut does the jobs in one transaction, or, when that fails, each in one of its own: what spoils a transaction is
// the fault of one.
func (w *writer) carryOut(batch []*job) {
	if len(batch) == 0 || !w.begin(batch) || w.finish(batch) || len(batch) == 1 {
		return
	}
	for i := range batch {
		if !w.begin(batch[i:]) {
			return
		}
		w.finish(batch[i : i+1])
	}
}

// begin begins a transaction; when that is not possible, it is the error of all jobs.
func (w *writer) begin(batch []*job) bool {
	w.servedBefore = w.served
	_, err := tx{w}.exec("BEGIN IMMEDIATE")
	if err != nil {
		fail(batch, err)
	}
	return err == nil
}

// finish does the jobs in the transaction begun and ends it. False means that it came to nothing.
func (w *writer) finish(batch []*job) bool {
	write := false
	for _, j := range batch {
		w.changed = false
		j.guard(func() { j.write, j.err = j.do(tx{w}) })
		if j.err != nil && (w.changed || !refusal(j.err)) {
			w.undo()
			return false
		}
		write = write || j.write
	}
	if !write {
		_, _ = tx{w}.exec("ROLLBACK")
		return true
	}
	if _, err := (tx{w}).exec("COMMIT"); err != nil {
		w.undo()
		fail(batch, err) // also of those that wrote nothing: they may have seen what now never was
		return false
	}
	w.committed()
	return true
}

// guard runs f. A panic is the affair of the caller of j, not of whoever leads.
func (j *job) guard(f func()) {
	defer func() {
		if j.panicked = recover(); j.panicked != nil {
			j.err = errPanicked
		}
	}()
	f()
}

func fail(batch []*job, err error) {
	for _, j := range batch {
		j.err = err
	}
}

// refusal reports whether err is an answer rather than a fault.
func refusal(err error) bool {
	var refused *domain.Error
	return errors.As(err, &refused) || errors.Is(err, ports.ErrProcessDead)
}
