package portstest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// RunHistory gives the steps of a history to a store and returns a canonical transcript: each step with its answer, and
// at the end every row and event of every session that the history names. What comes from the store's own clock is left
// out, so that equal stores give equal text. Histories for a store have no domaintest.Advance.
func RunHistory(ctx context.Context, s Store, history []domaintest.Step) string {
	return transcribe(storePlayer{ctx, s}, history)
}

// player is what carries out a history: a store, or the World.
type player interface {
	play(step domaintest.Step) domaintest.Reply
	session(ref domain.SessionRef) (domain.Session, error)
	events(ref domain.SessionRef) ([]domain.Event, error)
	runs(ref domain.SessionRef) ([]domain.Run, error)
	openCalls(ref domain.SessionRef) ([]domain.ToolCall, error)
}

func transcribe(p player, history []domaintest.Step) string {
	var b strings.Builder
	seen := map[domain.SessionRef]bool{}
	var refs []domain.SessionRef
	for i, step := range history {
		fmt.Fprintf(&b, "%d %s\n", i+1, describe(step))
		printReply(&b, step, p.play(step))
		if do, ok := step.(domaintest.Do); ok && !seen[do.Ref] {
			seen[do.Ref] = true
			refs = append(refs, do.Ref)
		}
	}
	for _, ref := range refs {
		fmt.Fprintf(&b, "== %s/%s\n%s", ref.Tenant, ref.Session, dump(p, ref))
	}
	return b.String()
}

// describe names a step by what it is, without the parts that say nothing.
func describe(step domaintest.Step) string {
	do, ok := step.(domaintest.Do)
	if !ok {
		return strings.TrimPrefix(domaintest.Describe(step), "domaintest.")
	}
	return fmt.Sprintf("%s/%s %s", do.Ref.Tenant, do.Ref.Session, reflect.TypeOf(do.Cmd).Name())
}

func printReply(b *strings.Builder, step domaintest.Step, r domaintest.Reply) {
	if r.Err != nil {
		fmt.Fprintf(b, "  refused: %s\n", refusal(r.Err))
		return
	}
	switch step.(type) {
	case domaintest.Do:
		printOutcome(b, r.Outcome)
	case domaintest.Claim:
		slices.SortFunc(r.Claims, func(x, y domain.Outcome) int { return strings.Compare(claimName(x), claimName(y)) })
		for _, out := range r.Claims {
			fmt.Fprintf(b, "  claimed %s as %s\n  %s\n", claimName(out), out.Claim, runLine(*out.Run))
		}
	case domaintest.Bury:
		for _, o := range r.Orphans {
			fmt.Fprintf(b, "  orphan %s/%s %s\n", o.Ref.Tenant, o.Ref.Session, o.Run)
		}
	}
}

func claimName(out domain.Outcome) string {
	return fmt.Sprintf("%s/%s %s", out.Session.Ref.Tenant, out.Session.Ref.Session, out.Run.ID)
}

// refusal is the stable part of an error.
func refusal(err error) string {
	var e *domain.Error
	switch {
	case errors.As(err, &e):
		return strings.TrimSpace(e.Code + " " + e.Field)
	case errors.Is(err, ports.ErrProcessDead), errors.Is(err, domaintest.ErrProcessDead):
		return "process dead"
	}
	return "error"
}

func printOutcome(b *strings.Builder, out domain.Outcome) {
	fmt.Fprintf(b, "  created=%t version=%d head=%d", out.Created, out.Session.Version, out.Session.HeadSeq)
	if out.Claim != "" {
		fmt.Fprintf(b, " claim=%s", out.Claim)
	}
	if out.Signalled {
		b.WriteString(" signalled")
	}
	if len(out.Started) > 0 {
		fmt.Fprintf(b, " started=%v", out.Started)
	}
	b.WriteString("\n")
	if out.Event != nil {
		fmt.Fprintf(b, "  event %s\n", eventLine(*out.Event))
	}
	if out.Run != nil {
		fmt.Fprintf(b, "  %s\n", runLine(*out.Run))
	}
	if w := out.Wake; w != (domain.Wake{}) {
		fmt.Fprintf(b, "  wake readers=%t queue=%t owner=%q parent=%t\n", w.Readers, w.Queue, w.Owner, w.Parent != nil)
	}
}

func eventLine(e domain.Event) string {
	return fmt.Sprintf("%s key=%q run=%q epoch=%d hash=%x", e.AppendJSON(nil), e.Key, e.RunID, e.Epoch, e.Hash[:6])
}

func runLine(r domain.Run) string {
	return fmt.Sprintf("run %s of %s/%s created=%s %s reason=%q error=%q owner=%q epoch=%d attempts=%d parked=%t wait=%q signals=%d "+
		"compact=%t claim=%s cancel=%s next=%q pending_input=%t watermark=%d ended=%+v settled=%t",
		r.ID, r.Ref.Tenant, r.Ref.Session, r.CreatedAt.UTC().Format(domain.TimeFormat), r.Status, r.Reason, r.Error, r.Owner,
		r.Epoch, r.Attempts, r.Parked, r.Wait, r.Signals, r.Compact, optional(r.ClaimSeq), optional(r.CancelSeq), r.NextRunID,
		r.PendingInput, r.ReadWatermark, r.Ended, !r.SettledAt.IsZero())
}

func optional[T any](p *T) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprint(*p)
}

// dump is all that can be read of a session.
func dump(p player, ref domain.SessionRef) string {
	var b strings.Builder
	s, err := p.session(ref)
	if err != nil {
		fmt.Fprintf(&b, "session: %s\n", refusal(err))
	} else {
		fmt.Fprintf(&b, "created=%s request=%s title=%q model=%q system=%q tools=%q metadata=%s state=%s owner_of_state=%s parent=%s "+
			"forked=%s\n", s.CreatedAt.UTC().Format(domain.TimeFormat), s.CreateRequest, s.Title, s.Model, s.System, s.Tools, s.Metadata,
			s.State, s.StateOwner, optional(s.Parent), optional(s.ForkedFrom))
		fmt.Fprintf(&b, "version=%d owner=%q epoch=%d head=%d at=%s hash=%x unanswered=%v guides=%v turn=%v owed=%s open=%d kept=%d "+
			"active=%q\n", s.Version, s.Owner, s.Epoch, s.HeadSeq, s.HeadAt.UTC().Format(domain.TimeFormat), s.HeadHash[:6],
			s.Unanswered, s.Guides, s.TurnInputs, s.Owed, s.OpenCalls, s.KeptSeq, s.ActiveRun)
	}
	list(&b, "events", p.events, ref, eventLine)
	list(&b, "runs", p.runs, ref, runLine)
	list(&b, "calls", p.openCalls, ref, func(c domain.ToolCall) string {
		return fmt.Sprintf("call %s of %d/%d %s started=%s result=%d", c.ID, c.AssistantSeq, c.Ordinal, c.Name,
			optional(c.StartedEpoch), c.ResultSeq)
	})
	return b.String()
}

func list[T any](b *strings.Builder, what string, read func(domain.SessionRef) ([]T, error), ref domain.SessionRef, line func(T) string) {
	rows, err := read(ref)
	if err != nil {
		fmt.Fprintf(b, "%s: %s\n", what, refusal(err))
	}
	for _, row := range rows {
		fmt.Fprintln(b, line(row))
	}
}
