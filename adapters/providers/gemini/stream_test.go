package gemini

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/ports"
)

var newDecoder wiretest.NewDecoder = func(emit func(ports.Delta)) wire.Decoder { return &decoder{Draft: wire.Draft{Emit: emit}} }

var fixtures = slices.Concat(callFixtures, signatureFixtures, faultFixtures, endFixtures, shapeFixtures)

// TestFixtures: K01 to K04, K11, K26 and K27, and the other shapes of this wire, in pieces of any number and size.
func TestFixtures(t *testing.T) {
	wiretest.TestFixtures(t, newDecoder, slices.Concat(fixtures, repeatedFinish))
}

func TestEveryTruncation(t *testing.T) { wiretest.TestTruncations(t, newDecoder, fixtures) }

func FuzzStream(f *testing.F) { wiretest.Fuzz(f, newDecoder, fixtures) }

// TestHeldTextComesBeforeTheNextBlock: what a block still held back is emitted before another block begins.
func TestHeldTextComesBeforeTheNextBlock(t *testing.T) {
	got := newDecoder.Decode(t, strings.NewReader(stream(says(textOf(`a\ud83d`)), last("STOP", thoughtOf("b")))))
	require.Equal(t, []ports.Delta{{Text: "a"}, {Text: "\uFFFD"}, {Thinking: "b"}}, got.Deltas)
}

// TestEndlessAnswer: a model that loops is stopped.
func TestEndlessAnswer(t *testing.T) {
	d := newDecoder(func(ports.Delta) {})
	piece := wire.Event{Data: says(textOf(strings.Repeat("x", wire.MaxReply/8)))}
	for range 7 {
		_, err := d.Event(piece)
		require.NoError(t, err)
	}
	_, err := d.Event(piece)
	require.ErrorContains(t, err, "larger than this server reads")
}

// TestNamesOfTools: a tool whose name the wire cannot carry comes back under its own.
func TestNamesOfTools(t *testing.T) {
	specs := []ports.ToolSpec{{Name: "files.read"}, {Name: "7up"}, {Name: "f"}}
	for _, spec := range specs {
		named := wiretest.NewDecoder(func(emit func(ports.Delta)) wire.Decoder {
			return &decoder{Draft: wire.Draft{Emit: emit, Names: toolNames(specs)}}
		})
		got := named.Decode(t, strings.NewReader(stream(last("STOP", callOf(`"name":"`+wireName(spec.Name)+`"`)))))
		require.NoError(t, got.Err)
		require.Equal(t, spec.Name, got.Reply.Content[0].Name)
		require.Equal(t, spec.Name, got.Deltas[0].ToolCall.Name)
	}
}

// TestSignedNames: a signature proves the name that the model gave, so it is kept only with one that goes back unchanged.
func TestSignedNames(t *testing.T) {
	specs := []ports.ToolSpec{{Name: "files.read"}}
	named := wiretest.NewDecoder(func(emit func(ports.Delta)) wire.Decoder {
		return &decoder{Draft: wire.Draft{Emit: emit, Names: toolNames(specs)}}
	})
	for name, want := range map[string]string{"f": "s", wireName("files.read"): "s", "default_api.f": "", strings.Repeat("x", 65): ""} {
		got := named.Decode(t, strings.NewReader(stream(last("STOP", signed(callOf(`"name":"`+name+`"`), "s")))))
		require.NoError(t, got.Err)
		require.Equal(t, want, got.Reply.Content[0].Signature, name)
	}
}
