package httpapi

import (
	"math/big"
	"strconv"
	"strings"
	"testing"
)

// FuzzSeq: a cursor is digits that fit 64 bits, and nothing else.
func FuzzSeq(f *testing.F) {
	for _, s := range []string{"", "0", "007", "-1", "+1", "1 ", "9223372036854775807", "9223372036854775808", "٣", "1_0", "0x1", "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseSeq(s, "after")
		n, isNumber := new(big.Int).SetString(s, 10)
		want := isNumber && s != "" && strings.Trim(s, "0123456789") == "" && n.IsInt64()
		if want != (err == nil) {
			t.Fatalf("%q: %v", s, err)
		}
		if want && int64(got) != n.Int64() {
			t.Fatalf("%q is not %d", s, got)
		}
		if want {
			if again, err := parseSeq(strconv.FormatInt(int64(got), 10), "after"); err != nil || again != got {
				t.Fatalf("%q does not come back", s)
			}
		}
	})
}
