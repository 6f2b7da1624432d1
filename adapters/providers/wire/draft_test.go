package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// drafted returns a draft, and what it has shown.
func drafted() (*wire.Draft, *[]ports.Delta) {
	var shown []ports.Delta
	return &wire.Draft{Emit: func(d ports.Delta) { shown = append(shown, d) }, Names: map[string]string{"a_b": "a.b"}}, &shown
}

func called(index int, name, arguments string) ports.Delta {
	return ports.Delta{ToolCall: &ports.ToolCallPart{Index: index, Name: name, Arguments: arguments}}
}

func TestDraftOfTexts(t *testing.T) {
	d, shown := drafted()
	d.Append(domain.TextBlock, wire.Raw(`"a\ud83d"`))
	d.Append(domain.TextBlock, wire.Raw(`"\ude00\ud83d"`))
	d.Append(domain.ThinkingBlock, wire.Raw("null"))
	d.Append(domain.ThinkingBlock, wire.Raw(`"b"`))
	require.Equal(t, []ports.Delta{{Text: "a"}, {Text: "😀"}, {Text: "\uFFFD"}, {Thinking: "b"}}, *shown, "what was held back comes first")

	first := d.Open(domain.Block{Type: domain.TextBlock})
	require.NoError(t, d.Write(first, wire.Raw(`"c"`)))
	second := d.Open(domain.Block{Type: domain.TextBlock})
	require.NoError(t, d.Write(first, wire.Raw(`""`)))
	require.Error(t, d.Write(first, wire.Raw(`"d"`)), "texts come one after the other")
	require.False(t, d.Newest(first))
	require.True(t, d.Newest(second))
	d.Open(domain.Block{Type: "hologram"})
	require.Equal(t, ports.Reply{Model: "asked", Content: []domain.Block{
		{Type: domain.TextBlock, Text: "a😀\uFFFD"}, {Type: domain.ThinkingBlock, Thinking: "b"}, {Type: domain.TextBlock, Text: "c"},
	}}, d.Partial("asked"), "nothing is no block")
}

func TestDraftOfSignedTexts(t *testing.T) {
	d, _ := drafted()
	d.Open(domain.Block{Type: domain.TextBlock, Signature: "s"})
	d.Append(domain.TextBlock, wire.Raw(`"a"`))
	require.Equal(t, []domain.Block{{Type: domain.TextBlock, Signature: "s"}, {Type: domain.TextBlock, Text: "a"}}, d.Partial("").Content)
}

func TestDraftOfCalls(t *testing.T) {
	d, shown := drafted()
	late := d.Open(domain.Block{Type: domain.CallBlock, ProviderID: "c0"})
	d.Argue(late, wire.Raw(`"{\"p\":"`))
	early := d.Open(domain.Block{Type: domain.CallBlock})
	early.Early = wire.Raw(`{"q":2}`)
	d.Name(early, "f")
	d.Name(late, "a_b")
	d.Argue(late, wire.Raw(`"1}"`))
	d.Close(early)
	require.Equal(t, []ports.Delta{called(1, "f", ""), called(0, "a.b", `{"p":`), called(0, "", "1}"), called(1, "", `{"q":2}`)}, *shown)
	cut := d.Open(domain.Block{Type: domain.CallBlock})
	cut.Pending = true
	d.Name(cut, "g")
	d.Stop = domain.StopEndTurn
	reply, err := d.Reply("asked")
	require.NoError(t, err)
	require.Equal(t, ports.Reply{Model: "asked", StopReason: domain.StopToolUse, Content: []domain.Block{
		{Type: domain.CallBlock, ProviderID: "c0", Name: "a.b", Arguments: `{"p":1}`},
		{Type: domain.CallBlock, Name: "f", Arguments: `{"q":2}`},
		{Type: domain.CallBlock, Name: "g", RawArguments: " "},
	}}, reply)
}

func TestDraftsThatFail(t *testing.T) {
	for code, fill := range map[string]func(*wire.Draft){
		"unnamed_tool_call": func(d *wire.Draft) { d.Stop = domain.StopEndTurn; d.Open(domain.Block{Type: domain.CallBlock}) },
		"missing_tool_call": func(d *wire.Draft) { d.Stop = domain.StopToolUse; d.Append(domain.TextBlock, wire.Raw(`"a"`)) },
		"length":            func(d *wire.Draft) { d.Stop = domain.StopLength; d.Append(domain.ThinkingBlock, wire.Raw(`"a"`)) },
	} {
		d, _ := drafted()
		fill(d)
		_, err := d.Reply("asked")
		var fault *ports.ProviderError
		require.ErrorAs(t, err, &fault)
		require.Equal(t, code, fault.Code)
		require.Equal(t, ports.Retryable, fault.Class)
	}
}

func TestHeard(t *testing.T) {
	d, _ := drafted()
	heard := func(want wire.Life) {
		t.Helper()
		life, err := d.Heard()
		require.NoError(t, err)
		require.Equal(t, want, life)
	}
	heard(wire.Ping)
	p := d.Open(domain.Block{Type: domain.TextBlock})
	heard(wire.Ping)
	require.NoError(t, d.Write(p, wire.Raw(`"a"`)))
	heard(wire.Alive)
	require.NoError(t, d.Write(p, wire.Raw(`""`)))
	heard(wire.Ping)
	d.Stop = domain.StopEndTurn
	heard(wire.Finished)
	d.Grow(wire.MaxReply)
	_, err := d.Heard()
	require.ErrorContains(t, err, "larger than this server reads")
}
