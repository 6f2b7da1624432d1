package service

import (
	"encoding/base64"
	"encoding/json"

	"github.com/keel-agent/keel/domain"
)

// CursorAheadError is domain.ErrCursorAhead together with the head that the cursor lies beyond.
type CursorAheadError struct{ Head domain.Seq }

func (e *CursorAheadError) Error() string { return domain.ErrCursorAhead.Error() }

// Unwrap returns domain.ErrCursorAhead.
func (e *CursorAheadError) Unwrap() error { return domain.ErrCursorAhead }

// LedgerHead returns the seq of the last committed event.
func (e *CursorAheadError) LedgerHead() domain.Seq { return e.Head }

// cursorVersion changes when the meaning of a position does; cursors of another version are refused.
const cursorVersion = 1

// The lists that have opaque cursors. A cursor of one is no cursor of another.
const (
	sessionsList = "sessions"
	runsList     = "runs"
	messagesList = "messages"
	newestList   = "messages.newest" // newest first
	secretsList  = "secrets"
)

// position is where a page of a list begins; which fields count follows from List.
type position struct {
	Version int    `json:"v"`
	List    string `json:"l"`

	CreatedAtMS int64  `json:"t,omitempty"`  // sessions, runs: the last item of the page before
	ID          string `json:"id,omitempty"` // secrets: its name

	Head    domain.Seq   `json:"h,omitempty"` // messages: the ledger that is being paged through
	Next    domain.Seq   `json:"n,omitempty"` // the event whose entries begin the page; beyond Head, those that wait. Newest first: the one after it
	Skip    int          `json:"k,omitempty"` // how many of its entries were shown
	Turn    []domain.Seq `json:"u,omitempty"` // the inputs that the answers of the turn had listed before Next
	Cut     domain.Seq   `json:"c,omitempty"` // where the transcript begins, while no completed answer is behind (domain.BehindCut); newest first: always
	Waiting []domain.Seq `json:"w,omitempty"` // the inputs that waited at Head; newest first: those of them that were not shown
}

func (p position) encode() string {
	p.Version = cursorVersion
	b, _ := json.Marshal(p) // fails for no position
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodePosition reads a cursor of list. It returns ErrInvalidCursor for any text that encode did not make for it.
func decodePosition(cursor, list string) (position, error) {
	var p position
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || json.Unmarshal(b, &p) != nil || p.encode() != cursor {
		return position{}, domain.ErrInvalidCursor.At("cursor")
	}
	if p.List != list {
		return position{}, domain.ErrInvalidCursor.With("the cursor is of another list, or of its other order").At("cursor")
	}
	if list != messagesList && list != newestList && domain.CheckID(p.ID) != nil {
		return position{}, domain.ErrInvalidCursor.At("cursor")
	}
	return p, nil
}
