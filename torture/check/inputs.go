package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// readPayloads parses the payloads and checks that the seqs are 1..n.
func (b *book) readPayloads() {
	b.bodies = make([]payload, len(b.events))
	for i, e := range b.events {
		if e.Seq != int64(i+1) {
			b.say(Gap, fmt.Sprintf("event number %d has seq %d", i+1, e.Seq), e.Seq)
		}
		if err := json.Unmarshal([]byte(e.Payload), &b.bodies[i]); err != nil {
			b.say(Malformed, err.Error(), e.Seq)
		}
	}
}

// inputs checks that each acknowledged input is in the ledger once, as it was sent and as the acknowledgements say.
func (b *book) inputs(terms Terms) {
	sent := map[string]Submit{}
	for _, s := range b.submits {
		sent[s.RequestID] = s
	}
	stored := map[string][]int{}
	for i, e := range b.events {
		if e.Kind != userMessage {
			continue
		}
		id := b.bodies[i].RequestID
		stored[id] = append(stored[id], i)
		s, known := sent[id]
		if !known {
			b.say(UnknownInput, "nobody sent the input "+id, e.Seq)
			continue
		}
		b.unchanged(s, e, b.bodies[i])
	}
	for _, s := range b.submits {
		at := stored[s.RequestID]
		switch {
		case len(s.Acks) == 0:
			b.say(Unacknowledged, fmt.Sprintf("%s was sent %d times and never acknowledged", s.RequestID, s.Tries))
		case len(at) == 0:
			b.say(LostInput, s.RequestID+" was acknowledged and is not in the ledger", s.Acks[0].Seq)
		}
		if len(at) > 1 {
			b.say(DoubledInput, fmt.Sprintf("%s stands in the ledger %d times", s.RequestID, len(at)), b.events[at[0]].Seq, b.events[at[1]].Seq)
		}
		if len(at) > 0 {
			b.acknowledged(s, b.events[at[0]], b.bodies[at[0]], terms)
		}
		if took := s.AckedAt - s.SentAt; terms.Patience > 0 && len(s.Acks) > 0 && took > terms.Patience {
			b.say(Slow, fmt.Sprintf("%s was acknowledged after %d ms and %d tries, the patience is %d ms", s.RequestID, took, s.Tries, terms.Patience), s.Acks[0].Seq)
		}
	}
}

// unchanged checks the content of a stored input, and that its delivery is the wanted one or an honest demotion.
func (b *book) unchanged(s Submit, e Event, p payload) {
	if e.Key != "requestId:"+s.RequestID {
		b.say(ChangedInput, "the stored key is "+e.Key, e.Seq)
	}
	if p.Text != s.Text || string(p.Note) != s.Note {
		b.say(ChangedInput, fmt.Sprintf("sent %q %s, stored %q %s", s.Text, s.Note, p.Text, p.Note), e.Seq)
	}
	delivery, requested := said(p.Delivery), said(p.Requested)
	demoted := s.Delivery == "guide" && delivery == "queue" && requested == "guide"
	asSent := delivery == s.Delivery && p.Requested == nil
	if !demoted && !asSent {
		b.say(ChangedInput, fmt.Sprintf("the client asked for delivery %q, stored is %q (requested %q)", s.Delivery, delivery, requested), e.Seq)
	}
}

func said(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// acknowledged checks each acknowledgement against the event. Where replies of the database were lost, two equal
// requests of one millisecond cannot be told apart, and each may be told that it was the first.
func (b *book) acknowledged(s Submit, e Event, p payload, terms Terms) {
	want := Ack{Seq: e.Seq, Delivery: said(p.Delivery), Run: e.Run}
	if want.Delivery == "" {
		want.Delivery = "queue"
	}
	created := 0
	for _, a := range s.Acks {
		if a.Created {
			created++
		}
		a.Created = false
		if a != want {
			b.say(AckDiffers, fmt.Sprintf("%s was acknowledged as %+v, the ledger has %+v", s.RequestID, a, want), e.Seq)
		}
	}
	if created > 1 && !terms.LostReplies {
		b.say(AckDiffers, fmt.Sprintf("%s was acknowledged as created %d times", s.RequestID, created), e.Seq)
	}
}

// answers checks that each answer was made from the inputs that it should know, and that no turn is answered twice.
func (b *book) answers() {
	answered := map[string]bool{} // by a completed message: it is in every later context
	over := map[int64]int64{}     // inputs whose turn ended, and where
	for i, e := range b.events {
		p := b.bodies[i]
		if e.Kind != assistantMessage {
			continue
		}
		known := map[string]bool{}
		for id := range answered {
			known[id] = true
		}
		for _, seq := range p.InputSeqs {
			in, body, ok := b.at(seq)
			if !ok || in.Kind != userMessage || seq >= e.Seq {
				b.say(WrongContext, fmt.Sprintf("the answer lists %d, which is no input before it", seq), e.Seq)
				continue
			}
			if end, twice := over[seq]; twice {
				b.say(AnsweredTwice, fmt.Sprintf("the turn of input %d had ended at %d", seq, end), seq, end, e.Seq)
			}
			known[body.RequestID] = true
		}
		if !p.completed() {
			continue
		}
		b.madeFrom(e, p, known)
		for _, seq := range p.InputSeqs {
			if _, body, ok := b.at(seq); ok {
				answered[body.RequestID] = true
			}
			if len(p.calls()) == 0 {
				over[seq] = e.Seq
			}
		}
	}
}

// madeFrom compares the inputs that an answer names with those that its request must have presented.
func (b *book) madeFrom(e Event, p payload, known map[string]bool) {
	var missing, extra []string
	seen := map[string]bool{}
	for _, id := range Tokens(p.said()) {
		if seen[id] {
			extra = append(extra, id+" twice")
		}
		seen[id] = true
		if !known[id] {
			extra = append(extra, id)
		}
	}
	for id := range known {
		if !seen[id] {
			missing = append(missing, id)
		}
	}
	if len(missing)+len(extra) > 0 {
		slices.Sort(missing)
		b.say(WrongContext, fmt.Sprintf("the answer was made without [%s] and with [%s]", strings.Join(missing, " "), strings.Join(extra, " ")), e.Seq)
	}
}

// strangers looks for inputs of other sessions in whatever the session's ledger and its readers got.
func (b *book) strangers() {
	for _, e := range b.events {
		for _, id := range Tokens(e.Payload) {
			if !owns(b.tenant, b.session, id) {
				b.say(Foreign, "the event holds the input "+id, e.Seq)
			}
		}
	}
	runs := map[string]bool{}
	for _, r := range b.runs {
		runs[r.ID] = true
	}
	for _, r := range b.reads {
		for _, p := range r.Partials {
			for _, id := range Tokens(p.Text) {
				if !owns(b.tenant, b.session, id) {
					b.say(Foreign, "a partial holds the input "+id)
				}
			}
			if !runs[p.Run] {
				b.say(Foreign, "a partial names the run "+p.Run+", which is not of this session")
			}
			if p.MovedID {
				b.say(PartialDurable, "a partial of generation "+p.Generation+" carried an id")
			}
		}
	}
}
