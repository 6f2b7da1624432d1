package output_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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

// What encodes an answer or quotes it in an error writes a value in another form than the one in which it was sent.
func TestHiddenInTheFormsThatEncodingsGiveIt(t *testing.T) {
	values := []string{"a&b<c>d", `quo"te`, `back\slash`, "tab\tbed", "no\u00a0break", "line\u2028end", "plain-"}
	h := output.Hidden(values)
	for _, value := range values {
		var bare bytes.Buffer
		encoder := json.NewEncoder(&bare)
		encoder.SetEscapeHTML(false)
		require.NoError(t, encoder.Encode(value))
		html, err := json.Marshal(value)
		require.NoError(t, err)
		for _, form := range []string{string(html), strings.TrimSpace(bare.String()), fmt.Sprintf("%q", value)} {
			require.Equal(t, `"[redacted]"`, h.In(form))
			require.EqualError(t, h.Error(errors.New("bad: "+form)), `bad: "[redacted]"`)
			require.Equal(t, `"`, h.InCut(form[:len(form)-2]), form)
		}
	}
	require.Equal(t, `a \u0026 b`, output.Hidden{"&"}.In(`a \u0026 b`), "the length of the value counts")
}
