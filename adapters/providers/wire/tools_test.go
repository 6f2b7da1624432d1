package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
)

// TestDescription: a description is cut at a border of characters, where a backend refused a long one, and marked.
func TestDescription(t *testing.T) {
	whole, long := strings.Repeat("😀", 1024), strings.Repeat("é", 1025)
	for _, c := range []struct {
		in    string
		brief bool
		want  string
	}{
		{"", true, ""}, {"a\x00", false, "a\uFFFD"}, {whole, true, whole}, {long, false, long},
		{long, true, strings.Repeat("é", 1017) + "… (cut)"},
	} {
		require.Equal(t, c.want, wire.Description(c.in, c.brief))
	}
	require.Equal(t, []bool{false, true}, []bool{wire.IsLong(whole), wire.IsLong(long)})
	for body, want := range map[string]bool{
		`{"error":{"message":"Invalid 'tools[13].function.description': string too long. Expected a string with maximum length 1024, but got a string with length 1103 instead."}}`: true,
		`{"error":{"message":"tools[0].description: at most 1024 characters"}}`:                                                                                                     true,
		`{"error":{"message":"Invalid 'tools[5].name': string too long. Expected a string with maximum length 64"}}`:                                                                false,
		`{"error":{"message":"description is missing"}}`:                                                                                                                            false,
	} {
		require.Equal(t, want, wire.RefusesDescription([]byte(body)), body)
	}
}
