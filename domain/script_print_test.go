package domain_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// printed says what a command answered and which rows it changed, field by field.
func printed(before, after domaintest.Ledger, now time.Time, reply domaintest.Reply) []string {
	if reply.Err != nil {
		var e *domain.Error
		if !errors.As(reply.Err, &e) {
			return []string{"error " + reply.Err.Error()}
		}
		return []string{strings.TrimSpace("refused " + e.Code + " " + e.Field)}
	}
	lines := []string{printedOutcome(reply.Outcome)}
	for _, e := range after.Events[len(before.Events):] {
		lines = append(lines, fmt.Sprintf("event %d %s%s%s %s", e.Seq, e.Kind, field(" key", e.Key), by(e), e.Payload))
	}
	if changes := changed(sessionFields(&before.Row), sessionFields(&after.Row)); changes != "" {
		lines = append(lines, "session"+changes)
	}
	for _, id := range slices.Sorted(maps.Keys(after.Runs)) {
		was, is := before.Runs[id], after.Runs[id]
		if changes := changed(runFields(&was, now), runFields(&is, now)); changes != "" {
			lines = append(lines, "run "+id+changes)
		}
	}
	for i, c := range after.Calls {
		var was domain.ToolCall
		if i < len(before.Calls) {
			was = before.Calls[i]
		}
		if changes := changed(callFields(was), callFields(c)); changes != "" {
			lines = append(lines, "call "+c.ID+changes)
		}
	}
	return append(lines, printedWake(reply.Outcome.Wake)...)
}

func printedOutcome(o domain.Outcome) string {
	s := "unchanged"
	if o.Created {
		s = "ok"
	}
	if o.Claim != "" {
		s += " claim=" + string(o.Claim)
	}
	if o.Event != nil {
		s += fmt.Sprintf(" seq=%d", o.Event.Seq)
		if !o.Created {
			s += " of run " + o.Event.RunID
		}
	}
	if o.Run != nil {
		s += fmt.Sprintf(" run=%s:%s", o.Run.ID, o.Run.Status)
		if o.Run.CancelSeq != nil {
			s += "(cancelled)"
		}
	}
	if len(o.Started) > 0 {
		s += " started=" + strings.Join(o.Started, ",")
	}
	if o.Signalled {
		s += " signalled"
	}
	return s
}

func printedWake(w domain.Wake) []string {
	var who []string
	if w.Readers {
		who = append(who, "readers")
	}
	if w.Queue {
		who = append(who, "queue")
	}
	if w.Owner != "" {
		who = append(who, "owner="+w.Owner)
	}
	if w.Parent != nil {
		who = append(who, "parent="+w.Parent.Session)
	}
	if who == nil {
		return nil
	}
	return []string{"wake " + strings.Join(who, " ")}
}

func by(e domain.Event) string {
	s := field(" run", e.RunID)
	if e.Epoch != 0 {
		s += fmt.Sprintf("/%d", e.Epoch)
	}
	return s
}

func field(name, value string) string {
	if value == "" {
		return ""
	}
	return name + "=" + value
}

type pair struct{ name, value string }

// changed lists the fields whose values differ. A value that is gone is shown as "-".
func changed(was, is []pair) string {
	var b strings.Builder
	for i, f := range is {
		if was[i].value != f.value {
			fmt.Fprintf(&b, " %s=%s", f.name, f.value)
		}
	}
	return b.String()
}

func show(v any) string {
	switch v := v.(type) {
	case *domain.Seq:
		if v == nil {
			return "-"
		}
		return fmt.Sprint(*v)
	case *int64:
		if v == nil {
			return "-"
		}
		return fmt.Sprint(*v)
	case string:
		if v == "" {
			return "-"
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

func sessionFields(s *domain.Session) []pair {
	return []pair{
		{"state", show(string(s.State))}, {"stateOwner", show(string(s.StateOwner))}, {"title", show(s.Title)},
		{"model", show(s.Model)}, {"version", show(s.Version)}, {"owner", show(s.Owner)}, {"epoch", show(s.Epoch)},
		{"unanswered", show(s.Unanswered)}, {"guides", show(s.Guides)}, {"turn", show(s.TurnInputs)},
		{"owed", show(string(s.Owed))}, {"open", show(s.OpenCalls)}, {"kept", show(s.KeptSeq)},
		{"active", show(s.ActiveRun)},
	}
}

func runFields(r *domain.Run, now time.Time) []pair {
	ended := "-"
	if r.Ended.Command != "" {
		ended = fmt.Sprintf("%s/%d:%s", r.Ended.Command, r.Ended.Epoch, r.Ended.Status)
	}
	settled := "-"
	if !r.SettledAt.IsZero() {
		settled = "yes"
	}
	due := "-"
	if r.Status == domain.StatusPending {
		due = r.AvailableAt.Sub(now).String()
	}
	return []pair{
		{"status", show(string(r.Status))}, {"reason", show(r.Reason)}, {"error", show(r.Error)}, {"owner", show(r.Owner)},
		{"epoch", show(r.Epoch)}, {"attempts", show(r.Attempts)}, {"due", due}, {"parked", show(r.Parked)},
		{"wait", show(r.Wait)}, {"signals", show(r.Signals)}, {"compact", show(r.Compact)}, {"claim", show(r.ClaimSeq)},
		{"cancel", show(r.CancelSeq)}, {"next", show(r.NextRunID)}, {"pendingInput", show(r.PendingInput)},
		{"watermark", show(r.ReadWatermark)}, {"ended", ended}, {"settled", settled},
	}
}

func callFields(c domain.ToolCall) []pair {
	return []pair{
		{"of", show(c.AssistantSeq)}, {"ordinal", show(c.Ordinal)}, {"name", show(c.Name)}, {"started", show(c.StartedEpoch)},
		{"result", show(c.ResultSeq)},
	}
}

func printedContext(messages []domain.Message) []string {
	var lines []string
	for _, m := range messages {
		head := string(m.Role)
		if m.Role == domain.RoleTool {
			head += " " + m.CallID + "/" + m.ProviderID
		}
		var parts []string
		for _, b := range m.Content {
			if b.Type == domain.CallBlock {
				parts = append(parts, "call "+b.ID+" "+b.Name)
				continue
			}
			parts = append(parts, fmt.Sprintf("%q", b.Text))
		}
		lines = append(lines, "| "+head+": "+strings.Join(parts, ", "))
	}
	return lines
}
