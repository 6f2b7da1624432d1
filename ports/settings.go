package ports

import (
	"context"

	"github.com/keel-agent/keel/domain"
)

// Settings keeps documents, one for each tenant and name.
type Settings interface {
	// Get returns a document, or domain.ErrNotFound when there is none.
	Get(ctx context.Context, tenant, name string) (Setting, error)

	// Put stores a document as the next revision, if its revision is still the expected one: 0 where there is none
	// yet, AnyRevision for whichever it is. Otherwise it returns domain.ErrRevisionConflict and changes nothing. A
	// document that is stored already is left as it is, whatever was expected, so that a Put may be given again.
	Put(ctx context.Context, tenant, name, document string, expected int64) (Setting, error)
}

// AnyRevision expects nothing of a revision.
const AnyRevision = -1

// Setting is a document, text of any form, and its revision, from 1.
type Setting struct {
	Document string
	Revision int64
}

// Next returns what s is after a Put, s itself when nothing is to be written. The zero value stands for no document.
func (s Setting) Next(document string, expected int64) (Setting, error) {
	switch {
	case s.Revision > 0 && s.Document == document:
		return s, nil
	case expected != AnyRevision && expected != s.Revision:
		return s, domain.ErrRevisionConflict
	}
	return Setting{Document: document, Revision: s.Revision + 1}, nil
}
