package output_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/output"
)

func TestHidden(t *testing.T) {
	h := output.Hidden{"secret", "secret-and-more", "short"}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "short": "short", "a secret.": "a [redacted].", "secret-and-more secret-and": "[redacted] [redacted]-and",
		"secretsecret": "[redacted][redacted]", "secre": "secre",
	} {
		require.Equal(t, want, h.In(in), in)
	}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "x secre": "x ", "x secret-and": "x ", "secret secret": "[redacted] ", "xs": "x", "x sec ": "x sec ", "sh": "sh",
	} {
		require.Equal(t, want, h.InCut(in), in)
	}
	require.Equal(t, "abc", output.Hidden(nil).InCut("abc"))
	require.Equal(t, "ab", output.Hidden{"xyzq1234", "q23456789"}.InCut("abxyzq"), "the longest beginning")

	telling, plain := fmt.Errorf("bad: %w", errors.New("secret")), errors.New("plain")
	require.EqualError(t, h.Error(telling), "bad: [redacted]")
	require.Same(t, plain, h.Error(plain))
	require.NoError(t, h.Error(nil))
}
