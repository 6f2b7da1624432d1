package sqlstore

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Lists answers the list queries through bun. Conn, when set, runs them instead of DB's own pool.
//
// bun writes arguments into the SQL text as literals, so nothing but ids, numbers and search texts goes through it;
// rows come back as they are stored.
type Lists struct {
	DB   *bun.DB
	Conn bun.IConn
}

func (l Lists) query(model any) *bun.SelectQuery {
	q := l.DB.NewSelect().Model(model)
	if l.Conn != nil {
		q = q.Conn(l.Conn)
	}
	return q
}

// Sessions implements ports.Sessions.List.
func (l Lists) Sessions(ctx context.Context, q ports.SessionQuery) ([]domain.Session, error) {
	needles, possible := metadataNeedles(q.Metadata)
	if q.Limit <= 0 || !possible || !Storable(q.Tenant) || !Storable(q.Parent) || q.Before != nil && !Storable(q.Before.Session) {
		return nil, nil
	}
	var found []domain.Session
	for {
		page, err := l.sessionPage(ctx, q, needles)
		if err != nil {
			return nil, err
		}
		for _, row := range page {
			if !metadataMatches(row.Metadata, q.Metadata) {
				continue
			}
			s, err := row.Session()
			if err != nil {
				return nil, err
			}
			if found = append(found, *s); len(found) == q.Limit {
				return found, nil
			}
		}
		if len(page) < q.Limit {
			return found, nil
		}
		last := page[len(page)-1]
		q.Before = &ports.SessionCursor{CreatedAtMS: last.CreatedAt, Session: last.SessionID}
	}
}

// sessionPage returns the next q.Limit rows that may match.
func (l Lists) sessionPage(ctx context.Context, q ports.SessionQuery, needles []string) ([]SessionRow, error) {
	var rows []SessionRow
	sel := l.query(&rows).Where("s.tenant_id = ?", q.Tenant).Where("s.created_at > ?", anyTime)
	if q.State != "" {
		sel.Where("s.state = ?", string(q.State))
	}
	if q.Parent != "" {
		sel.Where("s.parent_session = ?", q.Parent)
	}
	for _, needle := range needles {
		sel.Where("replace(s.metadata, ?, '') <> s.metadata", needle)
	}
	if b := q.Before; b != nil {
		sel.Where("(s.created_at, s.session_id) < (?, ?)", b.CreatedAtMS, b.Session)
	}
	err := sel.OrderExpr("s.created_at DESC, s.session_id DESC").Limit(int64(q.Limit)).Scan(ctx)
	return rows, err
}

// anyTime is before all times. On Postgres only a query that says so goes by the index of ages.
const anyTime = -math.MaxInt64

// maxNeedles bounds the query: stores refuse expressions that are too deep.
const maxNeedles = 16

// metadataNeedles returns, for wanted members, the text that a stored object with that member contains. The texts
// narrow the search; they may also stand deeper in an object. possible is false when no stored object can match.
func metadataNeedles(want map[string]string) (needles []string, possible bool) {
	for k, v := range want {
		raw, err := json.Marshal(map[string]string{k: v})
		if err != nil || !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, false
		}
		p, err := domain.ParsePayload(raw, len(raw))
		if err != nil {
			return nil, false
		}
		if s := p.String(); len(needles) < maxNeedles {
			needles = append(needles, s[1:len(s)-1])
		}
	}
	return needles, true
}

// metadataMatches reports whether each wanted string is a top-level member of the stored object.
func metadataMatches(stored *string, want map[string]string) bool {
	if len(want) == 0 {
		return true
	}
	var got map[string]json.RawMessage
	if stored == nil || json.Unmarshal([]byte(*stored), &got) != nil {
		return false
	}
	for k, v := range want {
		var s *string
		raw, ok := got[k]
		if !ok || json.Unmarshal(raw, &s) != nil || s == nil || *s != v {
			return false
		}
	}
	return true
}

// Runs implements ports.Runs.List.
func (l Lists) Runs(ctx context.Context, ref domain.SessionRef, before *ports.RunCursor, limit int) ([]domain.Run, error) {
	if !Storable(ref.Tenant) || !Storable(ref.Session) {
		return nil, domain.ErrNotFound
	}
	var rows []RunRow
	if limit <= 0 {
		return nil, nil
	}
	sel := l.query(&rows).Where("r.tenant_id = ?", ref.Tenant).Where("r.session_id = ?", ref.Session)
	if before != nil && Storable(before.Run) {
		sel.Where("(r.created_at, r.run_id) < (?, ?)", before.CreatedAtMS, before.Run)
	}
	if err := sel.OrderExpr("r.created_at DESC, r.run_id DESC").Limit(int64(limit)).Scan(ctx); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		known, err := l.query((*SessionRow)(nil)).Where("s.tenant_id = ?", ref.Tenant).
			Where("s.session_id = ?", ref.Session).Exists(ctx)
		if err != nil {
			return nil, err
		}
		if !known {
			return nil, domain.ErrNotFound
		}
	}
	return toRuns(rows)
}

// ActiveRuns implements ports.Runs.Active.
func (l Lists) ActiveRuns(ctx context.Context, tenant string, sessions []string) ([]domain.Run, error) {
	sessions = slices.DeleteFunc(slices.Clone(sessions), func(id string) bool { return !Storable(id) })
	if len(sessions) == 0 || !Storable(tenant) {
		return nil, nil
	}
	var rows []RunRow
	err := l.query(&rows).Where("r.tenant_id = ?", tenant).Where("r.session_id IN (?)", bun.List(sessions)).
		Where("r.status IN ('pending', 'running')").OrderExpr("r.session_id").Scan(ctx)
	if err != nil {
		return nil, err
	}
	return toRuns(rows)
}

func toRuns(rows []RunRow) ([]domain.Run, error) {
	runs := make([]domain.Run, 0, len(rows))
	for i := range rows {
		run, err := rows[i].Run()
		if err != nil {
			return nil, err
		}
		runs = append(runs, *run)
	}
	return runs, nil
}

// Processes implements ports.Processes.List.
func (l Lists) Processes(ctx context.Context) ([]ports.Process, error) {
	var rows []ProcessRow
	if err := l.query(&rows).OrderExpr("p.started_at, p.process_id").Scan(ctx); err != nil {
		return nil, err
	}
	all := make([]ports.Process, 0, len(rows))
	for i := range rows {
		all = append(all, rows[i].process())
	}
	return all, nil
}
