package gemini_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/ports"
)

// TestTooManyTools: the backend is not asked with more declarations than it takes.
func TestTooManyTools(t *testing.T) {
	s, p := start(t)
	_, err := ask(t, p, func(r *ports.ModelRequest) {
		for i := range 513 {
			r.Tools = append(r.Tools, ports.ToolSpec{Name: fmt.Sprint("f", i)})
		}
	})
	require.Equal(t, &ports.ProviderError{
		Class: ports.Fatal, Code: "too_many_tools",
		Message: "513 tools are offered and this backend takes at most 512: name fewer in the session's tools or in the input's selection",
	}, wiretest.Fault(t, err))
	require.Empty(t, s.Requests())
}
