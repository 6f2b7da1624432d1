// Package cascade ends, with a run that was cancelled, the runs of the sessions which it made.
package cascade

import (
	"context"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// page is how many runs are cancelled between two looks.
const page = 100

// Cancel cancels the runs that are forsaken (ports.Runs) below parent, level by level; the zero ref means below any
// session. It returns how many it cancelled before it ended or failed. A process that dies in the middle is no harm: runners
// repeat it for all sessions (commands.md, rule 1).
func Cancel(ctx context.Context, ledger ports.Ledger, runs ports.Runs, parent domain.SessionRef) (cancelled int, err error) {
	for parents := []domain.SessionRef{parent}; len(parents) > 0; {
		children, err := runs.Forsaken(ctx, parents[0], page)
		if err != nil {
			return cancelled, err
		}
		for _, c := range children {
			out, err := ledger.Do(ctx, c.Ref, domain.RequestCancel{Run: c.Run})
			if err != nil {
				return cancelled, err
			}
			if out.Created {
				cancelled++
			}
			parents = append(parents, c.Ref)
		}
		if len(children) < page {
			parents = parents[1:]
		}
	}
	return cancelled, nil
}
