package wire

import (
	"slices"

	"github.com/keel-agent/keel/ports"
)

// DefaultFirst returns found with the model id in front, whether the backend lists it or not; found as it is when id is
// "".
func DefaultFirst(id string, found []ports.Model) []ports.Model {
	if id == "" {
		return found
	}
	first := ports.Model{ID: id}
	if i := slices.IndexFunc(found, func(m ports.Model) bool { return m.ID == id }); i >= 0 {
		first = found[i]
		found = slices.Delete(found, i, i+1)
	}
	return slices.Insert(found, 0, first)
}
