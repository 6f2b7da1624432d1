package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"go.uber.org/zap"
)

// checkpointEvery is how many commits may pass before the log is copied into the database in the background. SQLite
// itself does so within a commit, which then stalls, only when the background falls far behind.
const checkpointEvery = 500

// writer is the one connection that writes, and the queue before it (batch.go).
type writer struct {
	turn chan struct{} // holds a token while nobody writes
	db   *sql.DB
	conn *sql.Conn
	log  *zap.Logger

	mu    sync.Mutex
	queue []*job

	// Guarded by turn.
	prepared     map[string]*sql.Stmt
	kept         kept
	served       string // the tenant that was served last
	servedBefore string // the same when the transaction began
	changed      bool   // the job under way has changed a row
	commits      int    // since the last checkpoint
	crowd        func(batch []*job) []*job

	checkpoint chan struct{} // asks for a checkpoint
	stopped    chan struct{} // closed when the checkpointer has ended
	once       sync.Once
	closed     chan struct{}
}

func openWriter(ctx context.Context, path string, log *zap.Logger) (*writer, error) {
	db, err := sql.Open("sqlite", dsn(path, "rw", "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(16000)"))
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	db.SetMaxOpenConns(2) // one writes, one copies the log
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
		return nil, translate(ctx, err)
	}
	w := &writer{
		turn: make(chan struct{}, 1), db: db, conn: conn, log: log, prepared: make(map[string]*sql.Stmt), kept: make(kept),
		checkpoint: make(chan struct{}, 1), stopped: make(chan struct{}), closed: make(chan struct{}),
	}
	w.turn <- struct{}{}
	go w.checkpoints()
	return w, nil
}

// close waits for the transaction under way; later ones are refused.
func (w *writer) close() {
	w.once.Do(func() {
		<-w.turn
		close(w.closed)
		close(w.checkpoint)
		<-w.stopped
		for _, stmt := range w.prepared {
			_ = stmt.Close()
		}
		_ = w.conn.Close()
		_ = w.db.Close()
	})
}

// undo ends a transaction that came to nothing.
func (w *writer) undo() {
	clear(w.kept)
	w.served = w.servedBefore
	_, _ = tx{w}.exec("ROLLBACK")
}

// committed counts a commit.
func (w *writer) committed() {
	if w.commits++; w.commits >= checkpointEvery {
		w.commits = 0
		select {
		case w.checkpoint <- struct{}{}:
		default:
		}
	}
}

// checkpoints copies the log into the database whenever it is asked to: most of it without holding up the writer, then
// during a short turn what was written meanwhile. Only a log that was copied to its end begins anew; otherwise it would
// grow, and a commit that makes a file grow is slower.
func (w *writer) checkpoints() {
	defer close(w.stopped)
	for range w.checkpoint {
		w.copyLog()
		select {
		case <-w.turn:
			w.copyLog()
			w.turn <- struct{}{}
		case <-w.closed:
		}
	}
}

func (w *writer) copyLog() {
	if _, err := w.db.ExecContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		w.log.Warn("checkpoint failed", zap.Error(err))
	}
}

// tx is a turn at the writing connection. It heeds no context: once begun, a transaction is carried through.
type tx struct{ w *writer }

// prepare returns the prepared statement of text, which is one of a fixed set.
func (t tx) prepare(text string) (*sql.Stmt, error) {
	if stmt, ok := t.w.prepared[text]; ok {
		return stmt, nil
	}
	stmt, err := t.w.conn.PrepareContext(context.Background(), text)
	if err == nil {
		t.w.prepared[text] = stmt
	}
	return stmt, err
}

func (t tx) exec(text string, args ...any) (rows int64, err error) {
	stmt, err := t.prepare(text) //nolint:sqlclosecheck // close closes what was prepared
	if err != nil {
		return 0, err
	}
	res, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	rows, err = res.RowsAffected()
	t.w.changed = t.w.changed || rows > 0
	return rows, err
}

func (t tx) query(text string, args ...any) (*sql.Rows, error) {
	stmt, err := t.prepare(text) //nolint:sqlclosecheck // close closes what was prepared
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(context.Background(), args...)
}
