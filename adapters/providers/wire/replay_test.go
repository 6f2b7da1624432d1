package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

func TestCallID(t *testing.T) {
	require.Equal(t, "019a2f7e-1111-7abc-8def-0123456789ab", wire.CallID("019a2f7e-1111-7abc-8def-0123456789ab", 40))
	for _, limit := range []int{40, 64} {
		long := wire.CallID(strings.Repeat("x", 200), limit)
		require.LessOrEqual(t, len(long), limit)
		require.Equal(t, long, wire.CallID(strings.Repeat("x", 200), limit))
		require.NotEqual(t, long, wire.CallID(strings.Repeat("x", 199), limit))
		require.Regexp(t, `^call_[0-9a-f]{32}$`, wire.CallID("functions.read:0", limit))
		require.Regexp(t, `^call_[0-9a-f]{32}$`, wire.CallID("", limit))
		require.Equal(t, strings.Repeat("x", limit), wire.CallID(strings.Repeat("x", limit), limit))
	}
}

func TestToolName(t *testing.T) {
	require.Equal(t, "read_file", wire.ToolName("read_file", 128))
	for _, name := range []string{"", "a.b", "a b", "ä", "\x00", strings.Repeat("x", 129), strings.Repeat("ü", 200)} {
		got := wire.ToolName(name, 128)
		require.Regexp(t, `^[a-zA-Z0-9_-]{1,128}$`, got)
		require.Equal(t, got, wire.ToolName(name, 128))
	}
	require.NotEqual(t, wire.ToolName("a.b", 128), wire.ToolName("a/b", 128))
	require.NotEqual(t, wire.ToolName("a.b", 128), wire.ToolName("a_b", 128))
}

func TestCallArguments(t *testing.T) {
	require.Equal(t, `{"n":9007199254740993,"z":"\ufffd"}`, wire.CallArguments(domain.Block{Arguments: `{"n":9007199254740993,"z":"\u0000"}`}))
	require.Equal(t, `{"malformed":"{\"a\":`+"\uFFFD"+`"}`, wire.CallArguments(domain.Block{RawArguments: "{\"a\":\x00"}))
}
