package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// Arguments as deep as a message can hold are kept; deeper ones are a call that never runs, not an answer that cannot be
// stored.
func TestArgumentsAsDeepAsAMessageCanHold(t *testing.T) {
	nested := func(depth int) string {
		return `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
	}
	for depth := domain.MaxArgumentDepth - 1; depth <= domain.MaxDepth+1; depth++ {
		args, raw := wire.FinishArguments(nested(depth))
		call := domain.Block{Type: domain.CallBlock, ID: "c1", Name: "f", Arguments: args, RawArguments: raw}
		_, err := domain.Assistant{Content: []domain.Block{call}, StopReason: domain.StopToolUse}.Payload(0)
		require.NoError(t, err, "depth %d", depth)
		require.Equal(t, depth <= domain.MaxArgumentDepth, args != "", "depth %d", depth)
	}
}
