package openai

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Handed cases K01 to K04: however many pieces a stream comes in, and wherever they are cut, it is the same answer.
func TestK02AnyNumberOfPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, f := range fixtures {
		if len(f.body) < 2 {
			continue
		}
		whole := decode(t, &pieces{[]string{f.body}, f.end})
		for range 40 {
			var list []string
			rest := f.body
			for len(rest) > 0 {
				n := 1 + random.IntN(min(len(rest), 1+random.IntN(len(f.body))))
				list, rest = append(list, rest[:n]), rest[n:]
			}
			got := decode(t, &pieces{append([]string(nil), list...), f.end})
			require.Equal(t, whole, got, "%s in the pieces %q", f.name, list)
		}
	}
}
