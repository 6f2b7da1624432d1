package postgres

import (
	"crypto/rand"
	"iter"
	"strings"

	"github.com/keel-agent/keel/adapters/bus"
)

// channelName is the SQL of the channel that the processes of a schema listen to.
const channelName = `'keel_' || left(encode(sha256(convert_to(coalesce(current_schema(), ''), 'UTF8')), 'hex'), 32)`

// A payload is the mark of the process that sends it, a kind, and what the kind says.
const (
	selfLength = 8
	headLength = selfLength + 1

	wakeKind     = ':' // digests of topics, or bus.Everyone
	partialKind  = '>' // the digest of a session, and a frame
	interestKind = '+' // digests of sessions whose partials the process wants
	askKind      = '?' // nothing: all are to say what they want
)

// maxPayload is what pg_notify accepts: fewer than 8,000 bytes.
const maxPayload = 7_999

// newSelf returns a mark that no other process has.
func newSelf() string { return rand.Text()[:selfLength] }

// payloads packs digests into as few payloads as the server's limit allows.
func payloads(head string, waiting map[bus.Digest]struct{}) []string {
	if _, all := waiting[bus.Everyone]; all {
		return []string{head + string(bus.Everyone)}
	}
	var packed []string
	var b strings.Builder
	for d := range waiting {
		if b.Len()+bus.DigestLength > maxPayload {
			packed = append(packed, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(head)
		}
		b.WriteString(string(d))
	}
	if b.Len() > 0 {
		packed = append(packed, b.String())
	}
	return packed
}

// digests yields those that payloads packed.
func digests(body string) iter.Seq[bus.Digest] {
	return func(yield func(bus.Digest) bool) {
		for ; len(body) >= bus.DigestLength; body = body[bus.DigestLength:] {
			if !yield(bus.Digest(body[:bus.DigestLength])) {
				return
			}
		}
	}
}
