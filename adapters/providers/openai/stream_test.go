package openai

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/ports"
)

var newDecoder wiretest.NewDecoder = func(emit func(ports.Delta)) wire.Decoder { return &decoder{emit: emit} }

func wireFixtures() (list []wiretest.Fixture) {
	for _, f := range fixtures {
		list = append(list, wiretest.Fixture{Name: f.name, Body: f.body, End: f.end, Want: f.want, Class: f.class, Code: f.code})
	}
	return list
}

// TestFixtures: handed cases K01 to K04 and the other liberties of this wire, in pieces of any number and size.
func TestFixtures(t *testing.T) { wiretest.TestFixtures(t, newDecoder, wireFixtures()) }

func TestEveryTruncation(t *testing.T) { wiretest.TestTruncations(t, newDecoder, wireFixtures()) }

func FuzzStream(f *testing.F) { wiretest.Fuzz(f, newDecoder, wireFixtures()) }

// TestHeldTextComesBeforeTheNextBlock: what a block still held back is emitted before another block begins.
func TestHeldTextComesBeforeTheNextBlock(t *testing.T) {
	got := newDecoder.Decode(t, strings.NewReader(stream(content(`a\ud83d`), delta0(`{"reasoning":"b"}`), finishWith("stop"))))
	require.Equal(t, []ports.Delta{{Text: "a"}, {Text: "\uFFFD"}, {Thinking: "b"}}, got.Deltas)
}
