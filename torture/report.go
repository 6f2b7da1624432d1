package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/keel-agent/keel/torture/check"
)

// shown is how many violations are told with their evidence.
const shown = 20

// report writes the figures and the verdict of a scenario.
func (o *outcome) report(w io.Writer) {
	fmt.Fprintf(w, "== %s: seed %d, %s, %d servers, %d clients, %.0f s\n", o.Name, o.Seed, o.Store, o.Servers, o.Clients, o.took.Seconds())
	var faults, points []string
	for _, name := range names(o.did) {
		text := fmt.Sprintf("%s %d", name, o.did[name])
		if strings.Contains(name, ":") {
			points = append(points, text)
		} else {
			faults = append(faults, text)
		}
	}
	fmt.Fprintf(w, "faults     %s\n", strings.Join(faults, ", "))
	if len(points) > 0 {
		fmt.Fprintf(w, "points     %s; %d not passed in time and killed there\n", strings.Join(points, ", "), o.missed)
	}
	f := o.figures
	fmt.Fprintf(w, "inputs     %d in %d sessions, %d acknowledgements (%d of them replays), %d guides, %d demoted, slowest %d ms\n", f.Inputs, f.Sessions, f.Acks, f.Replays, f.Guides, f.Demoted, f.SlowestAck)
	fmt.Fprintf(w, "requests   %d failed at one server and were sent to the next, %d probes of other tenants\n", o.load.retries.Load(), f.Probes)
	fmt.Fprintf(w, "ledger     %d events: %d answers, %d failed ones, %d results (%d stand-ins), %d runs (%d cancelled, %d failed, %d of these for want of attempts), epochs up to %d\n", f.Events, f.Answers, f.Failed, f.Results, f.Interrupted, f.Runs, f.Cancelled, f.FailedRuns, f.Exhausted, f.HighestEpoch)
	fmt.Fprintf(w, "readers    %d connections, %d frames, %d generations in partials, %d pages\n", f.Connections, f.Frames, f.Partials, f.Pages)
	fmt.Fprintf(w, "backend    asked %d times, %d made to fail; tools executed %d times\n", o.asked, o.failed, f.Effects)
	fmt.Fprintf(w, "at rest    %.1f s behind the last fault\n", o.quietAfter.Seconds())
	o.verdict(w)
}

// verdict writes whether anything was violated, and the evidence.
func (o *outcome) verdict(w io.Writer) {
	if len(o.violations) == 0 {
		fmt.Fprintf(w, "verdict    nothing lost, nothing doubled, nothing out of order\n")
		return
	}
	fmt.Fprintf(w, "verdict    %d VIOLATIONS; everything is in %s\n", len(o.violations), o.dir)
	for i, v := range o.violations {
		if i == shown {
			fmt.Fprintf(w, "… and %d more\n", len(o.violations)-shown)
			break
		}
		fmt.Fprintf(w, "-- %s\n%s", v, o.evidence(v))
	}
}

// around is how many events before and behind those of a violation are shown.
const around = 3

// evidence is the part of the ledger and of the clients' log that a violation is about.
func (o *outcome) evidence(v check.Violation) string {
	if v.Session == "" {
		return ""
	}
	var b strings.Builder
	near := func(seq int64) bool {
		for _, s := range v.Seqs {
			if seq >= s-around && seq <= s+around {
				return true
			}
		}
		return false
	}
	for _, e := range o.ledger.Events {
		if e.Tenant == v.Tenant && e.Session == v.Session && near(e.Seq) {
			fmt.Fprintf(&b, "   ledger %d %s epoch %d run %s %s\n", e.Seq, e.Kind, e.Epoch, e.Run, clip(e.Payload))
		}
	}
	for _, s := range o.history.Submits {
		for _, a := range s.Acks {
			if s.Tenant == v.Tenant && s.Session == v.Session && near(a.Seq) {
				fmt.Fprintf(&b, "   client %s sent at %d, %d tries: %+v\n", s.RequestID, s.SentAt, s.Tries, a)
			}
		}
	}
	return b.String()
}

func clip(s string) string {
	const most = 400
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
