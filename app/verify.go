package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/adapters/sqlstore"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// ErrNothingToVerify is returned by Verify for a store that it cannot check, and when there is no session of the given
// tenant or id.
var ErrNothingToVerify = errors.New("nothing to verify")

// Pages of Verify. A page of events is kept small, for each of them may be as large as a payload may be.
const (
	verifySessions = 500
	verifyEvents   = 64
	verifyStrays   = 1000
)

// Verification says what Verify checks and whom it tells.
type Verification struct {
	Tenant  string // only sessions of this tenant, when it is set
	Session string // only sessions of this id, when it is set

	Fault    func(ref domain.SessionRef, f domain.Fault) // is told of each fault
	Progress func(Verified)                              // is called often
}

// Verified counts what was checked.
type Verified struct {
	Sessions int64 `json:"sessions"`
	Events   int64 `json:"events"`
	Faults   int64 `json:"faults"`
}

// Verify recomputes from the ledgers of the configured store what its rows keep of them, and compares. It writes
// nothing and may work beside a server. An error means that it could not go on; faults of the data are none.
func Verify(ctx context.Context, c Config, v Verification) (Verified, error) {
	ledger, audit, done, err := openAudit(ctx, c)
	if err != nil {
		return Verified{}, err
	}
	defer done()
	if err := checkSchema(ctx, c); err != nil {
		return Verified{}, err
	}
	w := verifying{Verification: v, ledger: ledger, audit: audit}
	err = w.all(ctx)
	return w.count, err
}

func openAudit(ctx context.Context, c Config) (ports.Ledger, ports.Audit, func(), error) {
	kind, path, err := c.storeScheme()
	switch {
	case err != nil:
		return nil, nil, nil, fmt.Errorf("%w: %w", ErrNothingToVerify, err)
	case kind == storeSQLite:
		s, err := sqlite.OpenReadOnly(ctx, sqlite.Config{Path: path})
		if err != nil {
			return nil, nil, nil, err
		}
		return s, s.Audit(), s.Close, nil
	case kind == storePostgres:
		s, err := postgres.Open(ctx, postgres.Config{URL: c.Store, MaxConns: 1, AllowUnsafe: true})
		if err != nil {
			return nil, nil, nil, err
		}
		return s, s.Audit(), s.Close, nil
	}
	return nil, nil, nil, fmt.Errorf("%w: --store memory: is within its server", ErrNothingToVerify)
}

// verifying is one run of Verify.
type verifying struct {
	Verification
	ledger ports.Ledger
	audit  ports.Audit
	count  Verified
}

func (w *verifying) wants(ref domain.SessionRef) bool {
	return (w.Tenant == "" || ref.Tenant == w.Tenant) && (w.Session == "" || ref.Session == w.Session)
}

func (w *verifying) all(ctx context.Context) error {
	after := domain.SessionRef{Tenant: w.Tenant}
	for {
		refs, err := w.audit.Refs(ctx, after, verifySessions)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			if w.wants(ref) {
				if err := w.session(ctx, ref); err != nil {
					return fmt.Errorf("%s/%s: %w", ref.Tenant, ref.Session, err)
				}
			}
		}
		if len(refs) < verifySessions || w.Tenant != "" && refs[len(refs)-1].Tenant != w.Tenant {
			break
		}
		after = refs[len(refs)-1]
	}
	strays, err := w.audit.Strays(ctx, verifyStrays)
	if err != nil {
		return err
	}
	for _, ref := range strays {
		if w.wants(ref) {
			w.fault(ref, "session", "the row is missing, but there are events, runs or tool calls")
		}
	}
	return w.found()
}

// found returns ErrNothingToVerify when what was named is not there. A store may be empty.
func (w *verifying) found() error {
	switch {
	case w.count.Sessions > 0 || w.count.Faults > 0:
	case w.Tenant != "" && w.Session != "":
		return fmt.Errorf("%w: tenant %q has no session %q", ErrNothingToVerify, w.Tenant, w.Session)
	case w.Session != "":
		return fmt.Errorf("%w: there is no session %q", ErrNothingToVerify, w.Session)
	case w.Tenant != "":
		return fmt.Errorf("%w: tenant %q has no session", ErrNothingToVerify, w.Tenant)
	}
	return nil
}

// session checks one session as it was at one moment: its rows are read together, and the events up to their head
// never change.
func (w *verifying) session(ctx context.Context, ref domain.SessionRef) error {
	w.count.Sessions++
	var rows ports.AuditRows
	var v *domain.Verifier
	err := w.audit.Rows(ctx, ref, func(r ports.AuditRows) error {
		rows, v = r, domain.NewVerifier(r.Session)
		for run, err := range r.Runs {
			if err != nil {
				return err
			}
			v.Run(run)
		}
		return nil
	})
	what := "rows"
	if err == nil {
		what, err = "events", w.events(ctx, rows.Session, v)
	}
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return nil // gone since it was listed
	case errors.Is(err, sqlstore.ErrCorrupt): // what follows from the row is not known
		w.fault(ref, what, "%v", err)
		return nil
	case err != nil:
		return err
	}
	for _, f := range v.Finish(rows.LastSeq, rows.Calls) {
		w.report(ref, f)
	}
	w.tell()
	return nil
}

// events hands the ledger of a session, up to the head of its row, to v.
func (w *verifying) events(ctx context.Context, s domain.Session, v *domain.Verifier) error {
	for last := domain.Seq(0); last < s.HeadSeq; {
		events, err := w.ledger.Events(ctx, s.Ref, last, int(min(verifyEvents, s.HeadSeq-last)))
		if err != nil {
			return err
		}
		for _, e := range events {
			if last = e.Seq; last <= s.HeadSeq {
				v.Apply(e)
				w.count.Events++
			}
		}
		w.tell()
		if len(events) == 0 {
			break
		}
	}
	return nil
}

func (w *verifying) fault(ref domain.SessionRef, field, format string, args ...any) {
	w.report(ref, domain.Fault{Field: field, Detail: fmt.Sprintf(format, args...)})
}

func (w *verifying) report(ref domain.SessionRef, f domain.Fault) {
	w.count.Faults++
	if w.Fault != nil {
		w.Fault(ref, f)
	}
}

func (w *verifying) tell() {
	if w.Progress != nil {
		w.Progress(w.count)
	}
}
