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

// writer is the one connection that writes.
type writer struct {
	turn chan struct{} // holds a token while nobody writes
	db   *sql.DB
	conn *sql.Conn
	log  *zap.Logger

	prepared map[string]*sql.Stmt // guarded by turn
	commits  int                  // since the last checkpoint; guarded by turn

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
		turn: make(chan struct{}, 1), db: db, conn: conn, log: log, prepared: make(map[string]*sql.Stmt),
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

// do runs f in a transaction that commits when f returns write without an error, and is rolled back otherwise. It
// waits for its turn as long as ctx lives; once it has begun, the end of ctx no longer matters.
func (w *writer) do(ctx context.Context, f func(tx tx) (write bool, err error)) error {
	select {
	case <-w.turn:
	case <-w.closed:
		return sql.ErrConnDone
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { w.turn <- struct{}{} }()
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.inTurn(tx{w, context.WithoutCancel(ctx)}, f)
}

func (w *writer) inTurn(tx tx, f func(tx tx) (write bool, err error)) (err error) {
	if _, err := tx.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	begun := true
	defer func() {
		if begun {
			_, _ = tx.exec("ROLLBACK")
		}
	}()
	write, err := f(tx)
	if err != nil || !write {
		return err
	}
	if _, err := tx.exec("COMMIT"); err != nil {
		return err
	}
	begun = false
	if w.commits++; w.commits >= checkpointEvery {
		w.commits = 0
		select {
		case w.checkpoint <- struct{}{}:
		default:
		}
	}
	return nil
}

// checkpoints copies the log into the database whenever it is asked to, without holding up the writer.
func (w *writer) checkpoints() {
	defer close(w.stopped)
	for range w.checkpoint {
		if _, err := w.db.ExecContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
			w.log.Warn("checkpoint failed", zap.Error(err))
		}
	}
}

// tx is a turn at the writing connection.
type tx struct {
	w   *writer
	ctx context.Context
}

// prepare returns the prepared statement of text, which is one of a fixed set.
func (t tx) prepare(text string) (*sql.Stmt, error) {
	if stmt, ok := t.w.prepared[text]; ok {
		return stmt, nil
	}
	stmt, err := t.w.conn.PrepareContext(t.ctx, text)
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
	res, err := stmt.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t tx) query(text string, args ...any) (*sql.Rows, error) {
	stmt, err := t.prepare(text) //nolint:sqlclosecheck // close closes what was prepared
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(t.ctx, args...)
}
