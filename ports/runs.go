package ports

import (
	"context"

	"github.com/keel-agent/keel/domain"
)

// Runs proposes runs to workers and reads run rows.
type Runs interface {
	// Claim begins attempts of at most max due runs for a live process. SQL (or its like) proposes due, unparked,
	// pending runs of native sessions, fairly among tenants (round robin) and oldest due first within one; domain
	// disposes through domain.ClaimRun, each atomically. Only claims whose mode is work, cancelled or exhausted are
	// returned; runs without work are settled on the way. It returns ErrProcessDead when the process's row is missing,
	// dead or expired. With an error may come claims that have begun for certain; others may have begun as well
	// (Processes.Owned).
	Claim(ctx context.Context, c ClaimRequest) ([]Claim, error)

	// Get returns one run of a session, or domain.ErrNotFound.
	Get(ctx context.Context, ref domain.SessionRef, run string) (domain.Run, error)

	// List returns the runs of a session, newest first: by (created_at, run_id) descending, only those after the
	// cursor in that order. It returns domain.ErrNotFound when the session is missing or foreign.
	List(ctx context.Context, ref domain.SessionRef, before *RunCursor, limit int) ([]domain.Run, error)

	// Forsaken returns at most limit runs that a cancelled run leaves behind, by run id. That is the rule, and it stands
	// here alone (commands.md, rule 1): a run is forsaken when
	//   - it is pending or running, and nobody has asked for its cancel,
	//   - its session was made by a tool call of a run of another session of its tenant, its maker, whose cancel was asked
	//     for, whether or not the maker has ended since,
	//   - it was not created after its maker had ended: then a user goes on with the session.
	// A query, and no function of domain that stores propose to, because one that lives on for good would be proposed again
	// each time. parent narrows the search to sessions that it made; the zero ref searches all tenants.
	Forsaken(ctx context.Context, parent domain.SessionRef, limit int) ([]RunRef, error)

	// Active returns the pending and running runs of the named sessions of a tenant, by the session's id: at most one of
	// each, none of those that are missing or foreign.
	Active(ctx context.Context, tenant string, sessions []string) ([]domain.Run, error)

	// OpenCalls returns the session's tool calls without a result, by (assistant_seq, ordinal).
	OpenCalls(ctx context.Context, ref domain.SessionRef) ([]domain.ToolCall, error)
}

// ClaimRequest asks for work. Budget is the attempts per run.
type ClaimRequest struct {
	Process string
	Max     int
	Budget  int
}

// Claim is one attempt that has begun.
type Claim struct {
	Session domain.Session // with the new owner and epoch
	Run     domain.Run
	Mode    domain.ClaimMode
}

// RunCursor is a position in the list order of runs.
type RunCursor struct {
	CreatedAtMS int64
	Run         string
}
