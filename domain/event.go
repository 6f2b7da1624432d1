package domain

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// Seq is an event's position in its session's ledger: from 1, without gaps. 0 means "before the first event".
type Seq int64

func (s *Seq) clone() *Seq {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}

// SessionRef names a session within its tenant. Every query and every key is scoped by both.
type SessionRef struct {
	Tenant  string
	Session string
}

// Hash chains an event to all before it.
type Hash [sha256.Size]byte

// Event is one committed fact. RunID and Epoch are bookkeeping of the store: they are neither in the event's JSON nor
// in its hash.
type Event struct {
	Seq       Seq
	Kind      Kind
	Key       string // namespaced idempotency key ("requestId:…"), "" when the kind declares none
	Payload   Payload
	CreatedAt time.Time // UTC, whole milliseconds
	Hash      Hash
	RunID     string
	Epoch     int64
}

// TimeFormat is how every time is written on the wire: RFC 3339, UTC, milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Millis cuts t to the precision that is stored: whole milliseconds in UTC.
func Millis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// AppendJSON appends the event's wire form to dst: the same bytes in a snapshot, in an SSE frame and in an export.
func (e Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendInt(dst, int64(e.Seq), 10)
	dst = append(dst, `,"kind":"`...)
	dst = append(dst, e.Kind...)
	dst = append(dst, `","payload":`...)
	dst = append(dst, e.Payload.String()...)
	dst = append(dst, `,"createdAt":"`...)
	dst = e.CreatedAt.UTC().AppendFormat(dst, TimeFormat)
	return append(dst, `"}`...)
}

// MarshalJSON returns the wire form. encoding/json escapes <, > and & in it unless its Encoder has SetEscapeHTML(false).
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// NextHash returns the hash of e when the event before it has the hash prev. It covers seq, kind, key, time and
// payload, each with its length, and neither tenant nor session, so that a fork may copy events unchanged.
func NextHash(prev Hash, e Event) Hash {
	h := sha256.New()
	h.Write(prev[:])
	var n [8]byte
	num := func(v int64) {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		h.Write(n[:])
	}
	text := func(s string) {
		num(int64(len(s)))
		h.Write([]byte(s))
	}
	num(int64(e.Seq))
	text(string(e.Kind))
	text(e.Key)
	num(e.CreatedAt.UnixMilli())
	text(e.Payload.String())
	var out Hash
	h.Sum(out[:0])
	return out
}

// MaxKeyLength is the longest idempotency key, id or selector in characters (protocol.md §3).
const MaxKeyLength = 200

// DedupeKey returns the stored key of value under name, namespaced so that keys of different kinds never collide. It
// returns ErrInvalidKey unless value has 1 to 200 printable characters, none of them a control character and no space
// at either end.
func DedupeKey(name KeyName, value string) (string, error) {
	if fault := idFault(value); fault != "" {
		return "", ErrInvalidKey.With(fault).At(string(name))
	}
	return string(name) + ":" + value, nil
}

// CheckID returns nil when s can be an id or a key: 1 to 200 printable characters, valid UTF-8, no control character,
// no space at either end. Otherwise it returns ErrInvalidRequest.
func CheckID(s string) error {
	if fault := idFault(s); fault != "" {
		return ErrInvalidRequest.With(fault)
	}
	return nil
}

// idFault says what CheckID finds, "" for nothing.
func idFault(s string) string {
	switch n := utf8.RuneCountInString(s); {
	case n == 0:
		return "must not be empty"
	case n > MaxKeyLength:
		return "must have at most 200 characters"
	case !utf8.ValidString(s):
		return "must be valid UTF-8"
	case s[0] == ' ' || s[len(s)-1] == ' ':
		return "must not begin or end with a space"
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return "must have printable characters only"
		}
	}
	return ""
}
