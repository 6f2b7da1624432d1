package mcp

import (
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 80)
	for _, c := range []struct{ tools, want []string }{
		{[]string{"echo", "get-sum", "a_b"}, []string{"srv__echo", "srv__get-sum", "srv__a_b"}},
		{[]string{"fs.read"}, []string{"srv__fs_read"}},
		{[]string{"fs.read", "fs_read", "fs/read"}, []string{"srv__fs_read_4074bc02", "srv__fs_read", "srv__fs_read_96379919"}},
		{[]string{"é"}, []string{"srv___"}},
		{[]string{long + "a", long + "b"}, []string{"srv__" + long[:50] + "_f5c8d1ee", "srv__" + long[:50] + "_783bacce"}},
	} {
		names := offeredNames("srv", c.tools)
		for i, tool := range c.tools {
			require.Equal(t, c.want[i], names[tool])
			require.LessOrEqual(t, len(names[tool]), longestName)
			require.Equal(t, "srv", serverOf(names[tool]))
		}
		slices.Reverse(c.tools)
		require.Equal(t, names, offeredNames("srv", c.tools), "the order of a list changes nothing")
	}
	require.Empty(t, serverOf("time"))
}

// A session may name the tools of a server that is not up yet.
func TestMayHave(t *testing.T) {
	tools, err := New(Config{Servers: map[string]Server{"srv": {Command: "/bin/true"}}, Lookup: func(string) (string, bool) { return "", false }, Log: zap.NewNop()})
	require.NoError(t, err)
	require.Empty(t, tools.Specs())
	require.True(t, tools.MayHave(t.Context(), "t", "srv__anything"))
	require.False(t, tools.MayHave(t.Context(), "t", "other__thing"))
	require.False(t, tools.MayHave(t.Context(), "t", "srv"))
}

// Once a server was listed it has what it listed, and nothing else.
func TestMayHaveOfAListedServer(t *testing.T) {
	peer := newPeer()
	add(peer, "add.up", `{"type":"object"}`, nil)
	tools := inMemory(t, Server{}, func() *mcp.Server { return peer }, nil)
	tools.Load(t.Context(), "t", []string{"s__any"})
	require.Equal(t, []string{"s__add_up"}, tools.Known(t.Context(), "t"))
	require.True(t, tools.MayHave(t.Context(), "t", "s__add_up"))
	require.False(t, tools.MayHave(t.Context(), "t", "s__addup"))
	require.False(t, tools.MayHave(t.Context(), "t", "s__add.up"))
}

func TestMayHaveOfAServerThatIsAway(t *testing.T) {
	tools := inMemory(t, Server{}, newPeer, func() bool { return true })
	tools.Load(t.Context(), "t", []string{"s__any"})
	require.True(t, tools.MayHave(t.Context(), "t", "s__any"), "nobody knows what it has")
}
