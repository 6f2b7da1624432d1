package ports

import (
	"context"

	"github.com/keel-agent/keel/domain"
)

// Compactor decides where older context gives way to a summary, and has one written. It writes nothing itself.
type Compactor interface {
	// Load estimates what a request to m weighs: body, whose messages t estimates as messages.
	Load(m domain.Model, body ModelRequest, t *domain.Transcript, messages int) Load

	// Due returns the first event to keep when a request that weighs l is better preceded by a compaction, else 0.
	Due(t *domain.Transcript, l Load) domain.Seq

	// Cut returns the first event to keep when there must be a compaction, 0 when nothing can be compacted.
	Cut(t *domain.Transcript, l Load) domain.Seq

	// Summarise has m, which is one of p's, write what takes the place of all that stands in t before the event kept. What
	// was used is told beside an error too. The errors are those of Provider.Generate.
	Summarise(ctx context.Context, ask Ask, p Provider, m domain.Model, t *domain.Transcript, kept domain.Seq) (domain.Compacted, error)
}

// Ask has a provider generate an answer for a session, with the credential of the session's tenant.
type Ask func(ctx context.Context, p Provider, req ModelRequest) (Reply, error)

// Load is what a request weighs, in estimated tokens.
type Load struct {
	Messages int // of its messages alone, as Transcript.Tokens estimates them
	Tokens   int // of all of it, set right by what the backend counted before
	Window   int // of the model, 0 when unknown
}
