package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

// errMoved is returned when the version of a session, or the revision of a document, is not the one that was decided on.
// Nothing was written.
var errMoved = errors.New("a row changed since it was read")

// nowMS is the database's clock in whole milliseconds: the start of the transaction.
const nowMS = "floor(extract(epoch FROM now()) * 1000)::bigint"

// change is one session's effects and the version that they were decided on.
type change struct {
	seen    int64
	effects domain.Effects
}

// newCalls reports whether all calls of c come with its own events. They are then inserted and nothing else, so that an id
// that was used before does not pass even where nobody looked.
func (c change) newCalls() bool {
	for _, call := range c.effects.Calls {
		if len(c.effects.Events) == 0 || call.AssistantSeq < c.effects.Events[0].Seq {
			return false
		}
	}
	return true
}

// oldCalls reports whether no call of c comes with its own events.
func (c change) oldCalls() bool {
	for _, call := range c.effects.Calls {
		if len(c.effects.Events) > 0 && call.AssistantSeq >= c.effects.Events[0].Seq {
			return false
		}
	}
	return true
}

// apply makes one change happen, completes its outcome, and returns the database's now; errMoved when the session's
// version moved on.
func apply(ctx context.Context, q querier, c change) (now int64, err error) {
	w := newWrite([]change{c})
	var ref domain.SessionRef
	err = q.QueryRow(ctx, w.text(), w.args()...).Scan(&ref.Tenant, &ref.Session, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errMoved
	}
	if err == nil {
		sqlstore.CompleteOutcome(&c.effects, now)
	}
	return now, err
}

// commitAll applies changes, all or none, and commits in one round trip, in the transaction of conn if there is one. It
// calls each for every session and returns the database's now.
func commitAll(ctx context.Context, conn *pgxpool.Conn, changes []change, each func(domain.SessionRef)) (now int64, err error) {
	w := wholeWrite(changes)
	batch := &pgx.Batch{}
	if conn.Conn().PgConn().TxStatus() == 'I' {
		batch.Queue(beginText)
	}
	batch.Queue(w.text(), w.args()...).Query(func(rows pgx.Rows) error {
		var ref domain.SessionRef
		_, err := pgx.ForEachRow(rows, []any{&ref.Tenant, &ref.Session, &now}, func() error {
			each(ref)
			return nil
		})
		return err
	})
	batch.Queue("commit")
	err = conn.SendBatch(ctx, batch).Close()
	return now, err
}
