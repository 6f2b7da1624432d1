package ports

import (
	"context"

	"github.com/keel-agent/keel/domain"
)

// Sessions reads session rows.
type Sessions interface {
	// Get returns the session and its active run (nil when none), read together. It returns domain.ErrNotFound for a
	// session that is missing or of another tenant, indistinguishably.
	Get(ctx context.Context, ref domain.SessionRef) (domain.Session, *domain.Run, error)

	// List returns the sessions of a tenant, newest first: by (created_at, session_id) descending.
	List(ctx context.Context, q SessionQuery) ([]domain.Session, error)

	// Heads returns the head seq of each of the sessions, in their order; 0 for one that is missing.
	Heads(ctx context.Context, refs []domain.SessionRef) ([]domain.Seq, error)
}

// SessionQuery selects sessions of one tenant. Zero fields do not filter.
type SessionQuery struct {
	Tenant   string
	State    domain.SessionState
	Parent   string            // sessions made by tool calls of this session
	Metadata map[string]string // top-level members that must be equal to these strings
	Before   *SessionCursor    // only sessions after this one in list order
	Limit    int               // positive
}

// SessionCursor is a position in the list order of sessions.
type SessionCursor struct {
	CreatedAtMS int64
	Session     string
}
