package sqlite

import (
	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
)

// Bounds of kept.
const (
	maxKept     = 1024
	maxKeptText = 8 << 10 // bytes of one session's texts
)

// kept holds the session rows that were written last, each with its active run, so that the next command need not load
// them: nobody else writes them. It is guarded by the turn to write, and forgets everything when a transaction that
// changed something is rolled back.
type kept map[domain.SessionRef]keptRows

type keptRows struct {
	session *sqlstore.SessionRow
	run     *sqlstore.RunRow // nil when none is active
}

// view adds to v what is kept of its session, unless another run than the active one is wanted.
func (k kept) view(v *domain.View, run string) (found bool, err error) {
	rows, found := k[v.Ref]
	if !found || run != "" && (rows.run == nil || rows.run.RunID != run) {
		return false, nil
	}
	if v.Session, err = rows.session.Session(); err == nil && rows.run != nil {
		v.Run, err = rows.run.Run()
	}
	return true, err
}

// put keeps the rows of a session.
func (k kept) put(ref domain.SessionRef, rows keptRows) {
	s := rows.session
	texts := len(s.Title) + len(s.Model) + len(s.System) + len(s.Unanswered)
	for _, text := range []*string{s.CreateRequest, s.Tools, s.Metadata} {
		if text != nil {
			texts += len(*text)
		}
	}
	delete(k, ref)
	if texts > maxKeptText {
		return
	}
	for other := range k {
		if len(k) < maxKept {
			break
		}
		delete(k, other)
	}
	k[ref] = rows
}
