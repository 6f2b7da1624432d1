package domain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

func TestNear(t *testing.T) {
	names := strings.Fields("calculator read_file read_files sleep time")
	for unknown, want := range map[string]string{
		"calculatr": "did you mean calculator?",
		"slepe":     "did you mean sleep?", // two letters in the wrong order
		"TIME":      "did you mean time?",
		"readfile":  "did you mean read_file, read_files?", // the nearer one first
		"file":      "did you mean time, read_file, read_files?",
		"weather":   "there is calculator, read_file, read_files, sleep, time",
		"":          "there is calculator, read_file, read_files, sleep, time",
	} {
		require.Equal(t, "; "+want, domain.Near(unknown, names), unknown)
	}
	require.Equal(t, "; did you mean mini, maxi?", domain.Near("mnii", []string{"maxi", "mini"}), "exchanged letters are one fault")
	require.Equal(t, "; there is none", domain.Near("x", nil))
	many := strings.Fields(strings.Repeat("model-a model-b model-c ", 5))
	require.Equal(t, 5, strings.Count(domain.Near("model-x", many), "model"), "no more than a few")
	require.Contains(t, domain.Near("zzzzzzzzz", many), " and 5 more")
}
