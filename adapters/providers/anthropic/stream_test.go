package anthropic

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/ports"
)

var newDecoder wiretest.NewDecoder = func(emit func(ports.Delta)) wire.Decoder { return &decoder{Draft: wire.Draft{Emit: emit}} }

// TestFixtures: K01 to K04 and the other shapes of this wire, in pieces of any number and size.
func TestFixtures(t *testing.T) { wiretest.TestFixtures(t, newDecoder, wiretest.Streams(t, fixtures)) }

func TestEveryTruncation(t *testing.T) {
	wiretest.TestTruncations(t, newDecoder, wiretest.Streams(t, fixtures))
}

func FuzzStream(f *testing.F) { wiretest.Fuzz(f, newDecoder, wiretest.Streams(f, fixtures)) }

// TestHeldTextComesBeforeTheNextBlock: what a block still held back is emitted before another block begins.
func TestHeldTextComesBeforeTheNextBlock(t *testing.T) {
	got := newDecoder.Decode(t, strings.NewReader(wiretest.StreamOf(t, "k27-half-that-stays-alone")))
	require.Equal(t, []ports.Delta{{Text: "ok "}, {Text: "\uFFFD"}, {Text: "\uFFFD"}}, got.Deltas)
}

// TestNamesOfTools: a tool whose name the wire cannot carry comes back under its own.
func TestNamesOfTools(t *testing.T) {
	odd := wire.ToolName("files.read", maxName)
	names := wire.ToolNames([]ports.ToolSpec{{Name: "files.read"}, {Name: "f"}}, maxName)
	named := wiretest.NewDecoder(func(emit func(ports.Delta)) wire.Decoder {
		return &decoder{Draft: wire.Draft{Emit: emit, Names: names}}
	})
	got := named.Decode(t, strings.NewReader(strings.ReplaceAll(wiretest.StreamOf(t, "parallel-calls"), `"name":"f"`, `"name":"`+odd+`"`)))
	require.NoError(t, got.Err)
	require.Equal(t, "files.read", got.Reply.Content[1].Name)
	require.Equal(t, "files.read", got.Deltas[1].ToolCall.Name)
}
