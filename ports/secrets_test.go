package ports_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/ports"
)

// Whatever is done with what holds a confidential text, only Reveal tells it.
func TestConfidentialTextsAreNotShown(t *testing.T) {
	const canary = "the canary"
	c := ports.NewConfidential(canary)
	hidden := struct{ inner ports.ModelRequest }{ports.ModelRequest{Credential: c}}
	for _, v := range []any{c, &c, hidden, &hidden, hidden.inner, []ports.Confidential{c}, map[string]any{"k": c}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			require.NotContains(t, fmt.Sprintf(verb, v), canary, verb)
			require.NotContains(t, fmt.Sprintf(verb, v), fmt.Sprintf("%x", canary), verb)
		}
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NotContains(t, string(text), canary)
	}
	require.Equal(t, canary, c.Reveal())
	require.True(t, c.Given())
	require.False(t, ports.Confidential{}.Given())
	require.Empty(t, ports.Confidential{}.Reveal())
}
