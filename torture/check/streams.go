package check

import "fmt"

// streams checks that every reader got the ledger: each seq once over all its connections, in order, with the payload
// that is stored.
func (b *book) streams() {
	cursor := map[string]int64{}
	for _, r := range b.reads {
		if r.Reader != "" && r.After != cursor[r.Reader] {
			b.say(StreamGap, fmt.Sprintf("%s goes on behind %d, it had read up to %d", r.Reader, r.After, cursor[r.Reader]), r.After)
		}
		last := r.After
		for _, f := range r.Frames {
			if f.Seq != last+1 || f.ID != f.Seq {
				b.say(StreamGap, fmt.Sprintf("%s, connected behind %d, got the frame %d with seq %d behind %d", who(r), r.After, f.ID, f.Seq, last), last, f.Seq)
			}
			last = f.Seq
			b.same(r, f)
		}
		if r.Reader != "" {
			cursor[r.Reader] = last
		}
	}
	for reader, last := range cursor {
		if last < int64(len(b.events)) {
			b.say(StreamShort, fmt.Sprintf("%s read up to %d of %d", reader, last, len(b.events)), last)
		}
	}
}

func who(r Read) string {
	if r.Reader == "" {
		return "a page"
	}
	return r.Reader
}

func (b *book) same(r Read, f Frame) {
	e, _, ok := b.at(f.Seq)
	switch {
	case !ok:
		b.say(StreamDiffers, fmt.Sprintf("%s got an event that the ledger does not have", who(r)), f.Seq)
	case e.Kind != f.Kind, PayloadHash([]byte(e.Payload)) != f.Hash, wireTime(e.At) != f.At:
		b.say(StreamDiffers, fmt.Sprintf("%s got %s %s at %s, stored is %s %s at %s", who(r), f.Kind, f.Hash, f.At, e.Kind, PayloadHash([]byte(e.Payload)), wireTime(e.At)), f.Seq)
	}
}
