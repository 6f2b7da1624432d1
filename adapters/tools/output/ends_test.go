package output_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/output"
)

// TestEnds: K27, with a cut in the middle. Each text is written whole and byte by byte.
func TestEnds(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"12345678":                      "12345678",
		"123456789":                     "1234\n[cut: 1 of 9 bytes are missing here]\n6789",
		"1234é6789":                     "1234\n[cut: 2 of 10 bytes are missing here]\n6789",
		"123🎉6789":                      "123\n[cut: 4 of 11 bytes are missing here]\n6789",
		"1234567🎉":                      "1234\n[cut: 3 of 11 bytes are missing here]\n🎉",
		"12345678🎉9":                    "1234\n[cut: 8 of 13 bytes are missing here]\n9",
		"\xc3(\xff\xfe":                 "\uFFFD(\uFFFD",
		"12\xff\xff\xff\xff\xff\xff":    "12\uFFFD",
		"🎉🎉":                            "🎉🎉",
		strings.Repeat("a", 1000):       "aaaa\n[cut: 992 of 1000 bytes are missing here]\naaaa",
		"12\xff\xff567\xff\xff\xff\xff": "12\uFFFD\n[cut: 3 of 11 bytes are missing here]\n\uFFFD",
	} {
		whole, pieces := output.NewEnds(8), output.NewEnds(8)
		for i := range len(in) {
			n, err := pieces.Write([]byte(in[i : i+1]))
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		n, err := whole.Write([]byte(in))
		require.NoError(t, err)
		require.Equal(t, len(in), n)
		require.Equal(t, pieces.String(), whole.String())
		require.True(t, utf8.ValidString(whole.String()))
		require.Equal(t, want, whole.String(), "%q", in)
	}
}
