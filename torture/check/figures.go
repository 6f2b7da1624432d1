package check

// Figures count what a run was made of.
type Figures struct {
	Sessions, Inputs, Acks, Replays  int
	Events, Answers, Failed, Results int
	Interrupted, Runs, Cancelled     int
	Exhausted, FailedRuns            int // failed runs: the budget used up, all but the cancelled
	Connections, Frames, Partials    int
	Pages, Probes, Effects           int
	Guides, Demoted                  int
	SlowestAck                       int64 // milliseconds
	HighestEpoch                     int64
}

// Count counts.
func Count(h History, l Ledger) Figures {
	f := Figures{Sessions: len(l.Sessions), Events: len(l.Events), Runs: len(l.Runs), Inputs: len(h.Submits), Probes: len(h.Probes), Effects: len(h.Effects)}
	for _, s := range h.Submits {
		f.Acks += len(s.Acks)
		for _, a := range s.Acks {
			if !a.Created {
				f.Replays++
			}
		}
		if len(s.Acks) > 0 {
			f.SlowestAck = max(f.SlowestAck, s.AckedAt-s.SentAt)
		}
	}
	for _, r := range l.Runs {
		switch {
		case r.Reason == "cancelled":
			f.Cancelled++
		case r.Status == "failed":
			f.FailedRuns++
			if r.Reason == "attempts_exhausted" {
				f.Exhausted++
			}
		}
	}
	for _, s := range l.Sessions {
		f.HighestEpoch = max(f.HighestEpoch, s.Epoch)
	}
	for _, r := range h.Reads {
		if r.Reader == "" {
			f.Pages++
			continue
		}
		f.Connections++
		f.Frames += len(r.Frames)
		f.Partials += len(r.Partials)
	}
	var found []Violation
	for _, b := range books(History{}, l, &found) {
		b.readPayloads()
		b.count(&f)
	}
	return f
}

func (b *book) count(f *Figures) {
	for i, e := range b.events {
		p := b.bodies[i]
		switch {
		case e.Kind == assistantMessage && p.completed():
			f.Answers++
		case e.Kind == assistantMessage:
			f.Failed++
		case e.Kind == toolResult:
			f.Results++
			if p.Interrupted {
				f.Interrupted++
			}
		case e.Kind == userMessage && said(p.Delivery) == "guide":
			f.Guides++
		case e.Kind == userMessage && said(p.Requested) == "guide":
			f.Demoted++
		}
	}
}
