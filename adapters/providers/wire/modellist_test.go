package wire_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

func TestModelList(t *testing.T) {
	var list wire.ModelList
	name := func(entry wire.Raw) ports.Model { return ports.Model{ID: wire.String(entry)} }
	long := `"` + strings.Repeat("x", 201) + `"`
	for _, entries := range []string{`["b","a",{},"",7,null,"b"]`, `["a","c",` + long + `]`, `["d"`, `"e"`, ``} {
		require.NoError(t, list.Add(t.Context(), wire.Raw(entries), name))
	}
	require.Equal(t, []ports.Model{{ID: "b"}, {ID: "a"}, {ID: "c"}}, list.Models())
	require.False(t, list.Full())
}

// Whoever no longer waits for a list is not held up by its length.
func TestModelListEndsWithItsContext(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var list wire.ModelList
	read := 0
	err := list.Add(ctx, wire.Raw(`[`+strings.Repeat(`0,`, 1000)+`0]`), func(wire.Raw) ports.Model {
		if read++; read == 3 {
			cancel(enough)
		}
		return ports.Model{}
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, 3, read)
}

func TestElements(t *testing.T) {
	for raw, want := range map[string][]string{
		`[1, {"a":[2],"a":3} ,"x"]`: {`1`, `{"a":[2],"a":3}`, `"x"`},
		`[]`:                        nil, `{"a":1}`: nil, `[1,2`: nil, `[1]2`: nil, ``: nil, `null`: nil,
	} {
		var got []string
		for e := range wire.Elements(wire.Raw(raw)) {
			got = append(got, string(e))
		}
		require.Equal(t, want, got, raw)
	}
	next := 0
	for range wire.Elements(wire.Raw(`[1,2]`)) {
		next++
		break
	}
	require.Equal(t, 1, next)
	type object struct {
		A wire.Raw `json:"a"`
	}
	require.Equal(t, object{A: wire.Raw(`1`)}, wire.Members[object](wire.Raw(`{"A":2,"a":1,"b":3}`)))
	for _, raw := range []string{`[1]`, `{"a":1`, ``, `null`} {
		require.Zero(t, wire.Members[object](wire.Raw(raw)), raw)
	}
}
