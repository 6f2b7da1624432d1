package domaintest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// Cases are what histories of some length must come by, as Census names them.
var Cases = []string{
	"claimed work", "claimed cancelled", "claimed exhausted", "refused fenced", "refused session_closed",
	"refused idempotency_conflict", "refused open_calls", "refused unknown_call", "refused call_id_used", "refused cancelled",
	"refused invalid_payload", "refused invalid_key", "refused external_session", "refused native_session",
	"refused not_found", "demoted guide", "kept guide", "replayed", "signalled", "parked", "handed back", "rescued",
	"settled done", "settled pending more_input", "settled pending attempt_failed", "settled failed cancelled",
	"settled failed permanent_failure", "settled failed attempts_exhausted", "successor", "no work", "compacted", "compacted as proposed",
	"started calls", "closed late",
}

// Census counts in seen what happened in h.
func Census(h History, seen map[string]int) {
	for i, step := range h.Steps {
		r := h.Replies[i]
		if r.NoWork > 0 {
			seen["no work"]++
		}
		for _, c := range r.Claims {
			seen["claimed "+string(c.Claim)]++
		}
		var refusal *domain.Error
		do, ok := step.(Do)
		switch {
		case errors.As(r.Err, &refusal):
			seen["refused "+refusal.Code]++
		case ok && r.Err == nil:
			count(do.Cmd, r.Outcome, seen)
		}
	}
}

func count(cmd domain.Command, out domain.Outcome, seen map[string]int) {
	if !out.Created {
		switch cmd.(type) {
		case domain.SubmitInput, domain.AppendAssistant, domain.AppendToolResult, domain.Settle:
			seen["replayed"]++
		}
		if out.Signalled {
			seen["signalled"]++
		}
		return
	}
	switch c := cmd.(type) {
	case domain.SubmitInput:
		in, _ := domain.ParseInput(out.Event.Payload)
		if in.Requested != "" {
			seen["demoted guide"]++
		}
		if in.Delivery == domain.Guide {
			seen["kept guide"]++
		}
	case domain.ParkRun:
		seen["parked"]++
	case domain.HandBack:
		seen["handed back"]++
	case domain.Rescue:
		seen["rescued"]++
	case domain.StartCalls:
		seen["started calls"]++
	case domain.AppendCompaction:
		if out.Event != nil {
			seen["compacted"]++
			if strings.Contains(out.Event.Payload.String(), proposed) {
				seen["compacted as proposed"]++
			}
		}
	case domain.Settle:
		name := fmt.Sprintf("settled %s %s", out.Run.Status, out.Run.Reason)
		if out.Run.Reason == "" {
			name = "settled " + string(out.Run.Status)
		}
		seen[name]++
		if out.Session.ActiveRun != "" && out.Session.ActiveRun != c.Run {
			seen["successor"]++
		}
		if out.Session.State == domain.SessionClosed {
			seen["closed late"]++
		}
	}
}
