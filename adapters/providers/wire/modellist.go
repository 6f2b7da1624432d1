package wire

import (
	"context"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// MaxModelPages bounds the pages of a list of models: a backend may always say that there is more.
const MaxModelPages = 20

// ModelList gathers the models that a backend lists, each once, in its order. It takes one more than ports.MaxModels, which
// says that there are more. The zero value is empty.
type ModelList struct {
	found []ports.Model
	ids   map[string]bool
}

// Add reads each element of the JSON array entries, until the list is full or ctx ends; it returns the cause of that. What
// read makes of an element is passed over when nobody could ask for it by its ID.
func (l *ModelList) Add(ctx context.Context, entries Raw, read func(entry Raw) ports.Model) error {
	if l.ids == nil {
		l.ids = map[string]bool{}
	}
	for e := range Elements(entries) {
		if l.Full() || ctx.Err() != nil {
			break
		}
		if m := read(e); !l.ids[m.ID] && domain.CheckID(m.ID) == nil {
			l.ids[m.ID] = true
			l.found = append(l.found, m)
		}
	}
	return context.Cause(ctx)
}

// Full reports whether the list takes no more.
func (l *ModelList) Full() bool { return len(l.found) > ports.MaxModels }

// Models returns the models, nil for none.
func (l *ModelList) Models() []ports.Model { return l.found }
