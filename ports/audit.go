package ports

import (
	"context"
	"iter"

	"github.com/keel-agent/keel/domain"
)

// Audit reads what a store keeps beside its ledgers, for a check of the one against the others (domain.Verifier). It
// reads beside a server that writes.
type Audit interface {
	// Refs returns at most limit sessions of all tenants, those after a ref, ascending by the bytes of the tenant's id
	// and then of the session's. The zero ref begins; one without a session begins its tenant. limit must be positive.
	Refs(ctx context.Context, after domain.SessionRef, limit int) ([]domain.SessionRef, error)

	// Rows calls read with all rows of one session as they were at one moment, and returns its error. Events up to their
	// HeadSeq never change, so that Ledger.Events gives the ledger of that moment later as well. It returns
	// domain.ErrNotFound when the session is missing, and an error that is none of the ports' or domain's when a row
	// cannot be read as what it should be. A store that lost its connection calls read anew.
	Rows(ctx context.Context, ref domain.SessionRef, read func(AuditRows) error) error

	// Strays returns at most limit sessions that have events, runs or tool calls but no row, in the order of Refs. It
	// reads every key of the store.
	Strays(ctx context.Context, limit int) ([]domain.SessionRef, error)
}

// AuditRows are the rows of a session.
type AuditRows struct {
	Session domain.Session
	LastSeq domain.Seq        // the highest seq among its events, 0 when there is none
	Calls   []domain.ToolCall // all, by (AssistantSeq, Ordinal)

	// Runs gives all runs, one after another, by (CreatedAt, ID). It ends at the first error. It is to be used within the
	// call that got it, once.
	Runs iter.Seq2[domain.Run, error]
}
