package output_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/output"
)

// TestCap: K27 A.
func TestCap(t *testing.T) {
	a := strings.Repeat("a", 8191)
	for in, want := range map[string]string{
		"":                      "",
		a + "b":                 a + "b",
		a + "🎉":                 a + "\n[cut: the first 8191 of 8195 bytes]",
		a + "é":                 a + "\n[cut: the first 8191 of 8193 bytes]",
		a[:8190] + "é":          a[:8190] + "é",
		a[:8188] + "👩‍👩‍👧":      a[:8188] + "👩\n[cut: the first 8192 of 8206 bytes]",
		"x\xc3(\xff\xfe":        "x\uFFFD(\uFFFD",
		a[:8190] + "\xc3(":      a[:8190] + "\n[cut: the first 8190 of 8194 bytes]",
		"d\x00i\x00 \u2028\x1b": "d\x00i\x00 \u2028\x1b",
	} {
		got := output.Cap(in, 8<<10)
		require.Equal(t, want, got)
		require.True(t, utf8.ValidString(got))
	}
	require.Equal(t, "\n[cut: the first 0 of 4 bytes]", output.Cap("🎉", 3))
	require.Contains(t, output.Cap(strings.Repeat("a", 1<<20), 0), "[cut: the first 65536 of 1048576 bytes]")
}
