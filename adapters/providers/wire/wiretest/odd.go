package wiretest

import (
	"math/rand/v2"
	"strings"
)

// OneOf returns one of list.
func OneOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// OddText returns a text of the kinds that have broken requests: none, blank, with U+0000, beyond ASCII, long.
func OddText(r *rand.Rand) string {
	return OneOf(r, "plain", "", " \n", "a\x00b", "spelled \\u0000", "😀 \u2028 <&>", strings.Repeat("long ", 9))
}
