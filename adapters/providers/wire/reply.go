package wire

import (
	"strings"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Complete returns r as the result of a generation that reached its end. An answer that met the token cap before it
// had any text or call is a failed attempt: it comes back beside a fault with the code "length".
func Complete(r ports.Reply) (ports.Reply, error) {
	if r.StopReason == domain.StopLength && !says(r.Content) {
		return r, failed(string(domain.StopLength), "the token cap was reached before any text or tool call")
	}
	return r, nil
}

func says(blocks []domain.Block) bool {
	for _, b := range blocks {
		if b.Type == domain.CallBlock || b.Type == domain.TextBlock && strings.TrimSpace(b.Text) != "" {
			return true
		}
	}
	return false
}

// gravity orders stop reasons for streams that send two: the one that says more about what is missing wins.
var gravity = map[domain.StopReason]int{domain.StopEndTurn: 1, domain.StopToolUse: 2, domain.StopLength: 3, domain.StopRefusal: 4}

// Graver returns that of two stop reasons of one answer which says more about what is missing; "" says nothing.
func Graver(a, b domain.StopReason) domain.StopReason {
	if gravity[b] > gravity[a] {
		return b
	}
	return a
}
