package domain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseValueAccepts(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"compact":                {" { \"b\" : [ 1 , 2 ] ,\r\n\t\"a\" : null } ", `{"b":[1,2],"a":null}`},
		"member order":           {`{"b":1,"a":2,"c":3}`, `{"b":1,"a":2,"c":3}`},
		"number spelling":        {`[1,1.0,1e0,10e-1,-0,0E+05,1.50]`, `[1,1.0,1e0,10e-1,-0,0E+05,1.50]`},
		"K16 A":                  {`9007199254740993`, `9007199254740993`},
		"K16 D":                  {`"\ud83d"`, "\"\ufffd\""},
		"K16 E":                  {`1e400`, `1e400`},
		"K16 F":                  {`{"delivery":"guide","DELIVERY":"nonsense","text":"t"}`, `{"delivery":"guide","DELIVERY":"nonsense","text":"t"}`},
		"K16 H":                  {`{"id":8123456789012345677}`, `{"id":8123456789012345677}`},
		"huge exponent":          {`1e1000000000`, `1e1000000000`},
		"K26 A":                  {`"d\u0000i\u0000r\u0000"`, `"d\u0000i\u0000r\u0000"`},
		"K26 B":                  {`"\\u0000"`, `"\\u0000"`},
		"K26 C key":              {`{"a\u0000b":1}`, `{"a\u0000b":1}`},
		"K26 D":                  {`{"signature":"\u0000","arguments":{"p":"\u0000"}}`, `{"signature":"\u0000","arguments":{"p":"\u0000"}}`},
		"K26 E controls":         {`"\u0001\u001F\u001f"`, `"\u0001\u001f\u001f"`},
		"K26 E DEL, FFFE, 2028":  {`"\u007f\uFFFE\u2028\u2029"`, "\"\x7f\ufffe\u2028\u2029\""},
		"K27 B":                  {`"ok \ud83d"`, "\"ok \ufffd\""},
		"K27 C joined":           {`"\ud83d\ude00"`, `"😀"`},
		"low surrogate first":    {`"\ude00\ud83d"`, "\"\ufffd\ufffd\""},
		"half, then a pair":      {`"\ud83d\ud83d\ude00\ude00"`, "\"\ufffd😀\ufffd\""},
		"half, then an escape":   {`"\ud83d\u0041\ud83d\n\ud83d\\u"`, "\"\ufffdA\ufffd\\n\ufffd\\\\u\""},
		"short escapes":          {`"\u0008\u0009\u000a\u000c\u000d\u0022\u005c\/\u002f"`, `"\b\t\n\f\r\"\\//"`},
		"no HTML escaping":       {`"\u003ca\u003e & <b>"`, `"<a> & <b>"`},
		"no normalisation":       {`["\u00e9","e\u0301"]`, "[\"\u00e9\",\"e\u0301\"]"},
		"key escapes":            {`{"\u0061":1,"A":2}`, `{"a":1,"A":2}`},
		"same key in two places": {`{"a":{"a":1},"b":[{"a":1},{"a":2}]}`, `{"a":{"a":1},"b":[{"a":1},{"a":2}]}`},
		"empty key":              {`{"":""}`, `{"":""}`},
		"string at top":          {`"x"`, `"x"`},
		"literals":               {`[true,false,null,{},[]]`, `[true,false,null,{},[]]`},
		"deep arrays":            {nest("[", "]", MaxDepth), nest("[", "]", MaxDepth)},
		"deep objects":           {nest(`{"a":`, "}", MaxDepth), nest(`{"a":`, "}", MaxDepth)},
		"many, not deep":         {"[" + strings.Repeat("[{}],", 200) + "[]]", "[" + strings.Repeat("[{}],", 200) + "[]]"},
		"deep, beside others":    {"[[]," + nest("[", "]", MaxDepth-1) + "]", "[[]," + nest("[", "]", MaxDepth-1) + "]"},
		"brackets, quote":        {`["\"` + strings.Repeat("[", 100) + `"]`, `["\"` + strings.Repeat("[", 100) + `"]`},
		"brackets in strings":    {`["` + strings.Repeat(`[{\"\\`, 100) + `"]`, `["` + strings.Repeat(`[{\"\\`, 100) + `"]`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseValue([]byte(c.in), 0)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			again, err := ParseValue([]byte(got), 0)
			require.NoError(t, err)
			assert.Equal(t, got, again)
			assert.True(t, EqualJSON(c.in, got))
		})
	}
}

// nest puts n levels around nothing, or around an empty object.
func nest(open, close string, n int) string {
	if strings.HasPrefix(open, "{") {
		return strings.Repeat(open, n-1) + "{}" + strings.Repeat(close, n-1)
	}
	return strings.Repeat(open, n) + strings.Repeat(close, n)
}

func TestParseValueRefuses(t *testing.T) {
	for name, c := range map[string]struct{ in, detail string }{
		"nothing":                {"", "EOF"},
		"white space":            {" \n", "EOF"},
		"K16 C":                  {`{"text":"t","d":1,"d":2}`, `duplicate key "d"`},
		"duplicate with escape":  {`{"a":1,"\u0061":2}`, `duplicate key "a"`},
		"duplicate deep":         {`{"a":[{"d":1,"d":1}]}`, `duplicate key "d" at /a/0`},
		"duplicate halves":       {`{"\ud83d":1,"\ufffd":2}`, "duplicate key \"\ufffd\""},
		"duplicate of NUL":       {`{"\u0000":1,"\u0000":2}`, `duplicate key "\u0000"`},
		"late duplicate":         {manyKeys(5000, `,"k7":0`), `duplicate key "k7"`},
		"cut off":                {`{"city":"Os`, "EOF"},
		"two values":             {`{"city":"Oslo"}{"city":"Oslo"}`, "after top-level value"},
		"trailing data":          {`{} x`, "after top-level value"},
		"trailing comma":         {`{"a":1,}`, "there is a comma too many before '}' at byte 7"},
		"trailing comma, apart":  {"{\"a\":[1 , \n ]}", "there is a comma too many before ']' at byte 12"},
		"comment":                {`{} // no`, "after top-level value"},
		"single quotes":          {`{'a':1}`, "invalid character"},
		"byte order mark":        {"\ufeff{}", "invalid character"},
		"leading zero":           {`01`, "after top-level value"},
		"plus":                   {`+1`, "invalid character"},
		"bare point":             {`1.`, "EOF"},
		"NaN":                    {`NaN`, "invalid character"},
		"raw control":            {"\"a\nb\"", "invalid character"},
		"raw NUL":                {"\"a\x00b\"", "invalid character"},
		"bad escape":             {`"\x41"`, "invalid escape"},
		"half an escape":         {`"\u12"`, "invalid escape"},
		"bad UTF-8":              {"{\"a\":\"\xc3\x28\"}", "invalid UTF-8 at byte 6"},
		"bad UTF-8 in a key":     {"{\"\xff\xfe\":1}", "invalid UTF-8 at byte 2"},
		"surrogate in UTF-8":     {"\"\xed\xa0\xbd\"", "invalid UTF-8 at byte 1"},
		"overlong":               {"\"\xc0\xaf\"", "invalid UTF-8 at byte 1"},
		"cut character":          {"\"\xe2\x82", "invalid UTF-8 at byte 1"},
		"one array too deep":     {nest("[", "]", MaxDepth+1), "deeper than 64"},
		"one object too deep":    {nest(`{"a":`, "}", MaxDepth+1), "deeper than 64"},
		"too deep, beside":       {"[[]," + nest("[", "]", MaxDepth) + "]", "deeper than 64"},
		"far too deep":           {strings.Repeat("[", 1<<20), "deeper than 64"},
		"deep after a bad quote": {`"` + strings.Repeat("[", 100), "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseValue([]byte(c.in), 0)
			require.ErrorIs(t, err, ErrInvalidJSON)
			assert.ErrorContains(t, err, c.detail)
			assert.Less(t, len(err.Error()), 600)
			assert.Empty(t, got)
			assert.False(t, EqualJSON(c.in, "{}"))
			assert.True(t, EqualJSON(c.in, c.in))
		})
	}
}

func manyKeys(n int, more string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(",\"k" + jsonOf(i) + "\":0")
	}
	return "{" + b.String()[1:] + more + "}"
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestErrorsQuoteLittle(t *testing.T) {
	key := strings.Repeat("é", 100_000)
	for _, in := range []string{
		`{"` + key + `":1,"` + key + `":2}`,
		`{"` + key + `":{"a":1,"a":2}}`,
		`{"` + key + `":{"a":x}}`,
	} {
		_, err := ParseValue([]byte(in), 0)
		require.ErrorIs(t, err, ErrInvalidJSON)
		assert.Less(t, len(err.Error()), 600)
		assert.True(t, json.Valid([]byte(jsonOf(err.Error()))))
		assert.NotContains(t, err.Error(), "\ufffd")
	}
}

func TestSizeIsCompactSize(t *testing.T) {
	exact := `{"a":"` + strings.Repeat("x", DefaultMaxPayload-8) + `"}`
	_, err := ParsePayload([]byte(exact), 0)
	require.NoError(t, err)
	_, err = ParsePayload([]byte(exact[:len(exact)-2]+`y"}`), 0)
	require.ErrorIs(t, err, ErrPayloadTooLarge)
	assert.ErrorContains(t, err, "1048577 bytes, at most 1048576")

	_, err = ParsePayload([]byte(`{ "a" :  "\u0041" }`), 9)
	require.NoError(t, err)
	_, err = ParsePayload([]byte(`{"a":"AB"}`), 9)
	require.ErrorIs(t, err, ErrPayloadTooLarge)
	_, err = ParsePayload([]byte(`{"a":"AB",}`), 2)
	require.ErrorIs(t, err, ErrInvalidJSON)
}

func TestParsePayloadWantsAnObject(t *testing.T) {
	for _, in := range []string{`[]`, `"{}"`, `1`, `null`, `true`} {
		p, err := ParsePayload([]byte(in), 0)
		require.ErrorIs(t, err, ErrInvalidJSON)
		assert.ErrorContains(t, err, "not an object")
		assert.True(t, p.IsZero())
	}
	p, err := ParsePayload([]byte(" {} "), 0)
	require.NoError(t, err)
	assert.Equal(t, "{}", p.String())
	assert.False(t, p.IsZero())
}

func TestPayloadKeepsNoReference(t *testing.T) {
	for _, pad := range []int{0, 5000} {
		raw := []byte(`{"a":"` + strings.Repeat("x", pad) + `"}`)
		want := string(raw)
		p, err := ParsePayload(raw, 0)
		require.NoError(t, err)
		clear(raw)
		assert.Equal(t, want, p.String())
		b := p.Bytes()
		clear(b)
		assert.Equal(t, want, p.String())
		assert.Equal(t, want, StoredPayload(p.String()).String())
	}
}

func TestPayloadMarshal(t *testing.T) {
	p, err := ParsePayload([]byte(`{"t":"<&>\u2028\u0000","n":1.0}`), 0)
	require.NoError(t, err)
	b, err := p.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, p.String(), string(b))

	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(map[string]Payload{"p": p}))
	assert.Contains(t, out.String(), `1.0`)

	var back struct{ P Payload }
	require.NoError(t, json.Unmarshal([]byte(jsonOf(map[string]Payload{"P": p})), &back))
	assert.Equal(t, p, back.P, "HTML escaping changes the spelling alone, and parsing undoes it")

	_, err = json.Marshal(Payload{})
	require.ErrorIs(t, err, ErrInvalidJSON)
	for _, in := range []string{`null`, `[]`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}"} {
		q := p
		require.ErrorIs(t, json.Unmarshal([]byte(in), &q), ErrInvalidJSON)
		assert.Equal(t, p, q)
	}
}

func TestPayloadWithAndWithout(t *testing.T) {
	p := StoredPayload(`{"delivery":"guide","text":"t","x":{"delivery":1},"\u0000":2}`)
	demoted := p.With("delivery", `"queue"`).With("requestedDelivery", `"guide"`)
	assert.Equal(t, `{"delivery":"queue","text":"t","x":{"delivery":1},"\u0000":2,"requestedDelivery":"guide"}`, demoted.String())
	assert.Equal(t, p, demoted.Without("requestedDelivery").With("delivery", `"guide"`))
	assert.Equal(t, `{"text":"t"}`, p.Without("delivery", "x", "\x00", "absent").String())
	assert.Equal(t, p, p.Without("Delivery"))
	assert.Equal(t, p, p.Without())
	assert.Equal(t, "{}", StoredPayload(`{"a":1}`).Without("a").String())
	assert.Equal(t, `{"a":1}`, Payload{}.With("a", "1").String())
	assert.Equal(t, `{"a\"\n":{}}`, StoredPayload("{}").With("a\"\n", "{}").String())
	assert.True(t, Payload{}.Without("a").IsZero())
}

func benchmarkPayload() []byte {
	text := strings.Repeat("some words of a message, and a few more of them; ", 18)
	return []byte(`{"text":"` + text + `","requestId":"0192d3a1-7c5e-7bbb-8000-1f2e3d4c5b6a","delivery":"queue","content":[{"type":"text","text":"a\nb"}],"n":[1,2.5,-3e7]}`)
}

func BenchmarkParsePayload(b *testing.B) {
	for name, raw := range map[string][]byte{
		"1KB":     benchmarkPayload(),
		"unicode": []byte(`{"text":"` + strings.Repeat("эмодзи 🎉 и текст ", 40) + `"}`),
		"escapes": []byte(`{"text":"` + strings.Repeat(`line of \"code\"\n\u0041`, 50) + `"}`),
		"64KB":    []byte(`{"text":"` + strings.Repeat(`word `, 13_000) + `"}`),
		"members": []byte(manyKeys(200, "")),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParsePayload(raw, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWith(b *testing.B) {
	p := StoredPayload(string(benchmarkPayload()))
	b.ReportAllocs()
	for b.Loop() {
		p.With("delivery", `"queue"`)
	}
}
