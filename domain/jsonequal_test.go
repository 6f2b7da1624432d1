package domain

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEqualJSON(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		want bool
	}{
		"K16 A":                     {`{"text":"t","n":9007199254740993}`, `{"text":"t","n":9007199254740992}`, false},
		"K16 B":                     {`{"text":"t","n":1.0}`, `{"text":"t","n":1}`, true},
		"K16 C":                     {`{"text":"t","d":1,"d":2}`, `{"text":"t","d":2}`, false},
		"K16 D":                     {`{"text":"\ud83d"}`, `{"text":"\ufffd"}`, true},
		"K16 E":                     {`{"text":"t","m":1e400}`, `{"text":"t","m":1e400}`, true},
		"K16 E respelled":           {`{"text":"t","m":1e400}`, `{"m":10e399,"text":"t"}`, true},
		"K16 E, other value":        {`1e400`, `1e401`, false},
		"K16 F":                     {`{"delivery":"guide","DELIVERY":"nonsense"}`, `{"delivery":"guide"}`, false},
		"K16 G":                     {`{"b":1, "a":2}`, `{"a":2,"b":1}`, true},
		"K16 H":                     {`{"id":8123456789012345677}`, `{"id":8123456789012345678}`, false},
		"K26 A, B":                  {`"\u0000"`, `"\\u0000"`, false},
		"K26 C":                     {`{"a\u0000":1}`, `{"a":1}`, false},
		"K27 B":                     {`"ok \ud83d"`, "\"ok \ufffd\"", true},
		"K27 C":                     {`"\ud83d\ude00"`, `"😀"`, true},
		"escapes":                   {`{"\u0041":"\u0041\/\n"}`, `{"A":"A/\u000a"}`, true},
		"white space":               {" { \"a\" : [ 1 ,\t2 ] } \n", `{"a":[1,2]}`, true},
		"white space in a string":   {`"a b"`, `"a  b"`, false},
		"normal forms":              {`"\u00e9"`, "\"e\u0301\"", false},
		"case":                      {`"a"`, `"A"`, false},
		"array order":               {`[1,2]`, `[2,1]`, false},
		"array prefix":              {`[1]`, `[1,2]`, false},
		"array prefix, other way":   {`[[1],2]`, `[[1]]`, false},
		"object subset":             {`{"a":1}`, `{"a":1,"b":2}`, false},
		"object subset, reordered":  {`{"b":2}`, `{"a":1,"b":2}`, false},
		"object superset":           {`{"a":1,"b":2,"c":3}`, `{"c":3,"a":1}`, false},
		"same size, other key":      {`{"a":1,"b":2}`, `{"b":2,"c":1}`, false},
		"swapped values":            {`{"a":1,"b":2}`, `{"b":1,"a":2}`, false},
		"null is not absence":       {`{"a":null}`, `{}`, false},
		"null is not false":         {`null`, `false`, false},
		"number is not string":      {`1`, `"1"`, false},
		"empty array, empty object": {`[]`, `{}`, false},
		"nested reorder":            {`[{"a":{"x":[1],"y":2},"b":0}]`, `[{"b":0.0,"a":{"y":2e0,"x":[1]}}]`, true},
		"nested reorder, deep leaf": {`[{"a":{"x":[1],"y":2},"b":0}]`, `[{"b":0.0,"a":{"y":2e0,"x":[2]}}]`, false},
		"not JSON":                  {`{`, `{`, true},
		"not JSON either side":      {`{`, `[`, false},
		"not JSON, not itself":      {`{"a":1,}`, `{"a":1}`, false},
		"nothing":                   {``, `null`, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, EqualJSON(c.a, c.b))
			assert.Equal(t, c.want, EqualJSON(c.b, c.a))
			assert.Equal(t, c.want, StoredPayload(c.a).Equal(StoredPayload(c.b)))
		})
	}
}

func TestEqualNumbers(t *testing.T) {
	nines, zeros := strings.Repeat("9", 2000), strings.Repeat("0", 2000)
	classes := [][]string{
		{"0", "-0", "0.0", "-0.00e5", "0e400", "0e-1000000000", "0E" + nines, "-0e-" + nines},
		{"1", "1.0", "1e0", "10e-1", "1E+0", "1e-0", "0.1e1", "0.001e3", "1000e-3", "1e" + zeros, "1" + zeros + "e-2000", "0." + zeros + "1e2001"},
		{"-1", "-1.0", "-10e-1"},
		{"1.5", "15e-1", "0.15E1", "1.50"},
		{"9007199254740992", "9007199254740992.0", "9.007199254740992e15"},
		{"9007199254740993", "900719925474099300e-2"},
		{"0.1", "1e-1"},
		{"0.1000000000000000055511151231257827021181583404541015625"},
		{"1e400", "10e399", "0.1e401", "1e0400"},
		{"1e-400", "10e-401"},
		{"1e1000000000", "10e999999999", "1.0E+1000000000", "0.1e1000000001"},
		{"1e999999999999999999", "10e999999999999999998", "0.1e1000000000000000000", "0.01e01000000000000000001"},
		{"1e1000000000000000000", "10e999999999999999999", "100e999999999999999998", "0.1e1000000000000000001"},
		{"1e-999999999999999999", "0.1e-999999999999999998", "10e-1000000000000000000"},
		{"1e-1000000000000000000", "0.1e-999999999999999999", "100e-1000000000000000002"},
		{"1e9223372036854775807", "10e9223372036854775806"},
		{"1e9223372036854775808", "10e9223372036854775807"},
		{"1e18446744073709551616", "10e18446744073709551615"}, // 0 in 64 bits
		{"1e" + nines, "10e" + nines[1:] + "8", "0.1e1" + zeros, "1e0" + nines},
		{"10e" + nines, "1e1" + zeros, "1.00e+1" + zeros},
		{"1e-" + nines, "10e-1" + zeros, "0.1e-" + nines[1:] + "8"},
		{"1e-1" + zeros, "0.1e-" + nines, "100e-1" + zeros[1:] + "2"},
	}
	for i, class := range classes {
		for j, other := range classes {
			for _, a := range class {
				for _, b := range other {
					require.Equal(t, i == j, EqualJSON("["+a+"]", "["+b+"]"), "%.40s %.40s", a, b)
				}
			}
		}
	}
}

// Each pair is one of the slowest of its size; anything worse than linear takes far longer.
func TestEqualJSONIsCheap(t *testing.T) {
	const n = DefaultMaxPayload / 4
	nested := func(leaf string) string {
		open, end := strings.Repeat(`{"a":1,"b":`, MaxDepth-1), strings.Repeat("}", MaxDepth-1)
		return open + leaf + end
	}
	reordered := func(leaf string) string {
		return strings.Repeat(`{"b":`, MaxDepth-1) + leaf + strings.Repeat(`,"a":1.0}`, MaxDepth-1)
	}
	list := "[" + strings.Repeat("1,", n/4) + "1]"
	for name, c := range map[string]struct {
		a, b string
		want bool
	}{
		"exponents":   {"1e" + strings.Repeat("9", n), "0.1e1" + strings.Repeat("0", n), true},
		"fractions":   {"0." + strings.Repeat("0", n) + "1", "1e-" + jsonOf(n+1), true},
		"zeros":       {"1" + strings.Repeat("0", n), "1e" + jsonOf(n), true},
		"depth":       {nested(list), reordered(list), true},
		"depth, leaf": {nested(list), reordered(list[:len(list)-2] + "2]"), false},
		"members":     {manyKeys(20_000, `,"z":1`), `{"z":1.0,` + manyKeys(20_000, "")[1:], true},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			assert.Equal(t, c.want, EqualJSON(c.a, c.b))
			assert.Less(t, time.Since(start), time.Second)
		})
	}
}

func TestEqualJSONIsAnEquivalence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := spelledValue().Draw(t, "a"), spelledValue().Draw(t, "b"), spelledValue().Draw(t, "c")
		ab, bc := EqualJSON(a, b), EqualJSON(b, c)
		assert.True(t, EqualJSON(a, a))
		assert.Equal(t, ab, EqualJSON(b, a))
		if ab && bc {
			assert.True(t, EqualJSON(a, c))
		}
		if ab != bc {
			assert.False(t, EqualJSON(a, c))
		}
		assert.Equal(t, naiveEqual(naiveDecode(a), naiveDecode(b)), ab, "%s %s", a, b)
	})
}

func TestRespellingKeepsTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := jsonValue(4).Draw(t, "value")
		a, b := respell(t, v), respell(t, v)
		assert.True(t, EqualJSON(a, b), "%s %s", a, b)
		assert.True(t, naiveEqual(naiveDecode(a), naiveDecode(b)), "%s %s", a, b)
	})
}

func TestChangedLeafChangesTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := jsonValue(4).Draw(t, "value")
		a, b := respell(t, v), respell(t, changeLeaf(t, v))
		assert.False(t, EqualJSON(a, b), "%s %s", a, b)
		assert.False(t, EqualJSON(b, a), "%s %s", a, b)
	})
}

func TestParseValueKeepsTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := respell(t, jsonValue(4).Draw(t, "value"))
		text, err := ParseValue([]byte(in), 0)
		require.NoError(t, err)
		again, err := ParseValue([]byte(text), 0)
		require.NoError(t, err)
		assert.Equal(t, text, again)
		assert.LessOrEqual(t, len(text), len(in))
		assert.True(t, EqualJSON(in, text))
		assert.Equal(t, naiveDecode(in), naiveDecode(text), "number spelling is kept")
	})
}

// The number classes with exponents beyond any oracle: shifting the point by k equals adding k to the exponent.
func TestPointShiftsExponent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		exp := rapid.StringMatching(`[+-]?[0-9]{1,40}`).Draw(t, "exp")
		zeros := strings.Repeat("0", rapid.IntRange(0, 30).Draw(t, "zeros"))
		digits := rapid.StringMatching(`[1-9][0-9]{0,20}`).Draw(t, "digits")
		shifted := addToExponent(exp, int64(len(zeros)))
		a, b := digits+zeros+"e"+exp, digits+"e"+shifted
		assert.True(t, EqualJSON(a, b), "%s %s", a, b)
		assert.Equal(t, bigSum(exp, int64(len(zeros))), shifted)
		assert.Equal(t, bigSum(exp, -int64(len(zeros))), addToExponent(exp, -int64(len(zeros))))
		if zeros != "" {
			assert.False(t, EqualJSON(a, digits+"e"+exp))
		}
	})
}

func BenchmarkEqualJSON(b *testing.B) {
	text := string(benchmarkPayload())
	other := `{"n":[1.0,2.5,-30e6],` + strings.Replace(text[1:], `,"n":[1,2.5,-3e7]`, "", 1)
	for name, pair := range map[string][2]string{"same text": {text, strings.Clone(text)}, "respelled": {text, other}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !EqualJSON(pair[0], pair[1]) {
					b.Fatal("unequal")
				}
			}
		})
	}
}
