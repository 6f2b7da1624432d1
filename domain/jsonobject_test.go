package domain

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestObjectAccessIsExact(t *testing.T) {
	o, err := parseObject(`{"DELIVERY":"nonsense","delivery":"guide","n":null,"s":"a\"\u0000\\u0000","o":{"a":[1,"]}"]},"":0,"k\u0000\"":1}`)
	require.NoError(t, err)

	s, ok, err := o.str("delivery")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "guide", s)
	s, _, err = o.str("s")
	require.NoError(t, err)
	assert.Equal(t, "a\"\x00\\u0000", s)
	_, ok, err = o.str("Delivery")
	require.NoError(t, err)
	assert.False(t, ok)
	for _, name := range []string{"n", "o", ""} {
		_, ok, err = o.str(name)
		assert.True(t, ok)
		require.ErrorIs(t, err, ErrInvalidPayload)
	}

	assert.True(t, o.has("n"))
	assert.False(t, o.has("N"))
	raw, ok := o.get("o")
	assert.True(t, ok)
	assert.Equal(t, `{"a":[1,"]}"]}`, raw)
	raw, _ = o.get("k\x00\"")
	assert.Equal(t, "1", raw)
	raw, ok = o.get("absent")
	assert.False(t, ok)
	assert.Empty(t, raw)
}

func TestParseObjectRefuses(t *testing.T) {
	for _, in := range []string{
		``, ` `, `[]`, `null`, `1`, `"a"`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{a:1}`, `{1:1}`, `{"a" 1}`,
		`{"a":}`, `{"a":1 "b":2}`, `{"a":"x}`, `{"a":{}`, `{"a\x":1}`, `{} {}`, `{}]`,
	} {
		_, err := parseObject(in)
		require.ErrorIs(t, err, ErrInvalidJSON, in)
	}
	o, err := parseObject(" { \"a\" : 1 , \"b\":[ 2 ] } ")
	require.NoError(t, err)
	assert.Equal(t, []member{{"a", "1"}, {"b", "[ 2 ]"}}, o.members)
}

func TestElements(t *testing.T) {
	for in, want := range map[string][]string{
		`[]`:  nil,
		`[1]`: {"1"},
		`["a,]","\\",{"a":[1,2]},[[],[]],-1.5e3,null,true]`: {`"a,]"`, `"\\"`, `{"a":[1,2]}`, `[[],[]]`, `-1.5e3`, `null`, `true`},
		" [ 1 , [ 2 ] ] ": {"1", "[ 2 ]"},
	} {
		got, err := elements(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got)
	}
	for _, in := range []string{``, `{}`, `1`, `[`, `[1`, `[1,`, `[1,]`, `[,1]`, `[1 2]`, `["a]`, `[] []`, `[[]`} {
		_, err := elements(in)
		require.ErrorIs(t, err, ErrInvalidJSON, in)
	}
}

func TestKindOf(t *testing.T) {
	for in, want := range map[string]byte{
		`{}`: '{', `[]`: '[', `""`: '"', `true`: 't', `false`: 'f', `null`: 'n', `0`: '0', `-1`: '0', `9e9`: '0', ``: 0, `x`: 0, ` 1`: 0,
	} {
		assert.Equal(t, want, kindOf(in), in)
	}
}

func TestObjectInt(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "-0": 0, "-0.00": 0, "0e99999999999999999999": 0,
		"1": 1, "1.0": 1, "1e0": 1, "10e-1": 1, "0.001E+3": 1, "1000000e-06": 1, "-1.50e1": -15,
		"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64, "9223372036854775807.000": math.MaxInt64,
		"922337203685477580700e-2": math.MaxInt64, "9.223372036854775807e18": math.MaxInt64, "1e18": 1e18,
	} {
		n, ok, err := objectOf(t, in).int("n")
		require.NoError(t, err, in)
		assert.True(t, ok)
		assert.Equal(t, want, n, in)
	}
	for _, in := range []string{
		"0.5", "1e-1", "9223372036854775808", "-9223372036854775809", "9223372036854775807.5", "1e19", "10e18", "1e400", "1e1000000000",
		"1e99999999999999999999999", "1e-99999999999999999999999", `"1"`, "null", "true", "[1]", "{}",
	} {
		_, ok, err := objectOf(t, in).int("n")
		assert.True(t, ok)
		require.ErrorIs(t, err, ErrInvalidPayload, in)
	}
	_, ok, err := objectOf(t, "1").int("N")
	require.NoError(t, err)
	assert.False(t, ok)
}

func objectOf(t *testing.T, value string) object {
	o, err := parseObject(`{"n":` + value + `}`)
	require.NoError(t, err)
	return o
}

func TestQuote(t *testing.T) {
	for text, quoted := range map[string]string{
		"":               `""`,
		"a/b":            `"a/b"`,
		"\x00\b\x1f\x7f": "\"\\u0000\\b\\u001f\x7f\"",
		"<&>\u2028":      "\"<&>\u2028\"",
		"\\u0000":        `"\\u0000"`,
		"🎉é":             `"🎉é"`,
	} {
		assert.Equal(t, quoted, quoteJSON(text))
		back, err := unquoteJSON(quoted)
		require.NoError(t, err)
		assert.Equal(t, text, back)
	}
	assert.Equal(t, "\"\ufffd\"", quoteJSON("\xff"))
	for _, in := range []string{``, `"`, `a`, `1`, `"a`, `a"`, `"a"b"`, `"\"`, `"\x"`, `"\u12"`, `"a" `} {
		_, err := unquoteJSON(in)
		require.ErrorIs(t, err, ErrInvalidJSON, in)
	}
}

func BenchmarkParseObject(b *testing.B) {
	text := string(benchmarkPayload())
	b.ReportAllocs()
	for b.Loop() {
		o, err := parseObject(text)
		if err != nil || !o.has("delivery") {
			b.Fatal(err)
		}
	}
}
