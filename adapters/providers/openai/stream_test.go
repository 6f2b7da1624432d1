package openai

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/ports"
)

var newDecoder wiretest.NewDecoder = func(emit func(ports.Delta)) wire.Decoder { return &decoder{Draft: wire.Draft{Emit: emit}} }

// TestFixtures: K01 to K04 and the other liberties of this wire, in pieces of any number and size.
func TestFixtures(t *testing.T) { wiretest.TestFixtures(t, newDecoder, fixtures) }

func TestEveryTruncation(t *testing.T) { wiretest.TestTruncations(t, newDecoder, fixtures) }

func FuzzStream(f *testing.F) { wiretest.Fuzz(f, newDecoder, fixtures) }

// TestHeldTextComesBeforeTheNextBlock: what a block still held back is emitted before another block begins.
func TestHeldTextComesBeforeTheNextBlock(t *testing.T) {
	got := newDecoder.Decode(t, strings.NewReader(stream(content(`a\ud83d`), delta0(`{"reasoning":"b"}`), finishWith("stop"))))
	require.Equal(t, []ports.Delta{{Text: "a"}, {Text: "\uFFFD"}, {Thinking: "b"}}, got.Deltas)
}

// TestNamesOfTools: a tool whose name the wire cannot carry comes back under its own.
func TestNamesOfTools(t *testing.T) {
	odd := wire.ToolName("files.read", maxName)
	names := wire.ToolNames([]ports.ToolSpec{{Name: "files.read"}}, maxName)
	named := wiretest.NewDecoder(func(emit func(ports.Delta)) wire.Decoder {
		return &decoder{Draft: wire.Draft{Emit: emit, Names: names}}
	})
	got := named.Decode(t, strings.NewReader(stream(calls0(headOf("0", "ca", odd, "{}")), calls0(headOf("1", "cb", "made_up", "{}")), finishWith("tool_calls"))))
	require.NoError(t, got.Err)
	require.Equal(t, "files.read", got.Reply.Content[0].Name)
	require.Equal(t, "files.read", got.Deltas[0].ToolCall.Name)
	require.Equal(t, "made_up", got.Reply.Content[1].Name)
}
