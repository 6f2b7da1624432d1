package domain

import (
	"errors"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzParsePayload(f *testing.F) {
	f.Add([]byte(`{"text":"\ud83d","n":[1.0,1e400,-0],"a":{"b":{}}}`), 0)
	f.Add([]byte(`{"a":1,"\u0061":2}`), 0)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		before := string(raw)
		text, err := ParseValue(raw, limit)
		require.Equal(t, before, string(raw))
		if err != nil {
			require.Less(t, len(err.Error()), 1000)
			tooLarge := errors.Is(err, ErrPayloadTooLarge)
			require.True(t, tooLarge || errors.Is(err, ErrInvalidJSON))
			require.Equal(t, naiveStrict(raw), tooLarge)
			return
		}
		require.True(t, naiveStrict(raw))
		require.LessOrEqual(t, len(text), len(raw))
		require.Equal(t, naiveDecode(string(raw)), naiveDecode(text))
		again, err := ParseValue([]byte(text), limit)
		require.NoError(t, err)
		require.Equal(t, text, again)
		require.True(t, EqualJSON(before, text))

		p, err := ParsePayload(raw, limit)
		if kindOf(text) != '{' {
			require.ErrorIs(t, err, ErrInvalidJSON)
			return
		}
		require.NoError(t, err)
		require.Equal(t, text, p.String())
		checkMembers(t, p)
	})
}

// checkMembers holds the readers and writers of objects against encoding/json.
func checkMembers(t *testing.T, p Payload) {
	o, err := parseObject(p.String())
	require.NoError(t, err)
	want := naiveDecode(p.String()).(map[string]any)
	require.Len(t, o.members, len(want))
	rebuilt := StoredPayload("{}")
	for _, m := range o.members {
		require.Contains(t, want, m.name)
		require.Equal(t, want[m.name], naiveDecode(m.raw))
		raw, ok := o.get(m.name)
		require.True(t, ok)
		require.Equal(t, m.raw, raw)
		require.Equal(t, p, p.With(m.name, m.raw))
		require.Len(t, naiveDecode(p.Without(m.name).String()), len(want)-1)
		if kindOf(m.raw) == '[' {
			list, err := elements(m.raw)
			require.NoError(t, err)
			require.Len(t, list, len(want[m.name].([]any)))
		}
		if kindOf(m.raw) == '"' {
			s, _, err := o.str(m.name)
			require.NoError(t, err)
			require.Equal(t, want[m.name], s)
			require.Equal(t, m.raw, quoteJSON(s))
		}
		if len(o.members) < 100 {
			rebuilt = rebuilt.With(m.name, m.raw)
		}
	}
	if len(o.members) < 100 {
		require.Equal(t, p, rebuilt)
	}
}

// bigExponent finds numbers that the oracle must not expand.
var bigExponent = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{3,}`)

func FuzzEqualJSON(f *testing.F) {
	f.Add(`{"a":1.0,"b":[null]}`, `{"b":[null],"\u0061":10e-1}`)
	f.Add(`1e1000000000`, `10e999999999`)
	f.Fuzz(func(t *testing.T, a, b string) {
		require.True(t, EqualJSON(a, a))
		equal := EqualJSON(a, b)
		require.Equal(t, equal, EqualJSON(b, a))
		for _, s := range []string{a, b} { // no panic on any text
			_, _ = parseObject(s)
			_, _ = elements(s)
			_, _ = unquoteJSON(s)
			_ = StoredPayload(s).With("a", "1").Without("b")
			_, _ = parseInt(s)
		}
		if !naiveStrict([]byte(a)) || !naiveStrict([]byte(b)) {
			require.Equal(t, a == b, equal)
			return
		}
		if !bigExponent.MatchString(a + " " + b) {
			require.Equal(t, naiveEqual(naiveDecode(a), naiveDecode(b)), equal)
		}
	})
}
