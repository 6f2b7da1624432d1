package domain

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Values to spell: nil, bool, string, jsonNumber, []any, map[string]any.

// jsonNumber is digits × 10^exp; digits may have a sign and no zeros at the end.
type jsonNumber struct {
	digits string
	exp    int
}

func jsonValue(depth int) *rapid.Generator[any] {
	choices := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		jsonText().AsAny(),
		jsonNumbers().AsAny(),
	}
	if depth > 0 {
		inner := rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(depth - 1) })
		list, members := rapid.SliceOfN(inner, 0, 4).AsAny(), rapid.MapOfN(jsonText(), inner, 0, 4).AsAny()
		choices = append(choices, list, list, list, members, members, members)
	}
	return rapid.OneOf(choices...)
}

func jsonText() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune("ab\"\\/\x00\n\x1f\x7f<&é🎉\u0301\u2028\ufffd\ufffe")), 0, 4, -1)
}

func jsonNumbers() *rapid.Generator[jsonNumber] {
	return rapid.Custom(func(t *rapid.T) jsonNumber {
		digits := rapid.StringMatching(`-?([1-9]|[1-9][0-9]{0,20}[1-9])`).Draw(t, "digits")
		if rapid.IntRange(0, 9).Draw(t, "zero") == 0 {
			return jsonNumber{"0", 0}
		}
		return jsonNumber{digits, rapid.IntRange(-30, 30).Draw(t, "exp")}
	})
}

// respell returns one of the many spellings of v.
func respell(t *rapid.T, v any) string {
	pad := rapid.SampledFrom([]string{"", "", " ", "\n\t\r"}).Draw(t, "pad")
	return pad + spellBare(t, v, pad) + pad
}

func spellBare(t *rapid.T, v any, pad string) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return spellText(t, v)
	case jsonNumber:
		return spellNumber(t, v)
	case []any:
		parts := make([]string, 0, len(v))
		for _, e := range v {
			parts = append(parts, respell(t, e))
		}
		return "[" + pad + strings.Join(parts, ",") + "]"
	case map[string]any:
		names := rapid.Permutation(slices.Sorted(maps.Keys(v))).Draw(t, "order")
		parts := make([]string, 0, len(v))
		for _, name := range names {
			parts = append(parts, pad+spellText(t, name)+pad+":"+respell(t, v[name]))
		}
		return "{" + strings.Join(parts, ",") + pad + "}"
	}
	panic(fmt.Sprintf("%T", v))
}

func spellText(t *rapid.T, s string) string {
	var b strings.Builder
	for _, r := range s {
		style := rapid.IntRange(0, 2).Draw(t, "escape")
		switch {
		case style == 0 && r == utf8.RuneError:
			halves := []string{`\ud83d`, `\uDE00`, `\ufffd`}
			if strings.HasSuffix(b.String(), halves[0]) { // the two halves would be one character
				halves[1] = `\uFFFD`
			}
			b.WriteString(rapid.SampledFrom(halves).Draw(t, "half"))
		case style <= 1 && r < 0x10000:
			fmt.Fprintf(&b, rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "hex"), r)
		case style <= 1:
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			q := quoteJSON(string(r))
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return `"` + b.String() + `"`
}

func spellNumber(t *rapid.T, v jsonNumber) string {
	sign, digits := "", v.digits
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if digits == "0" {
		return rapid.SampledFrom([]string{"0", "-0", "0.00", "0e7", "-0E-07"}).Draw(t, "zero")
	}
	zeros := rapid.IntRange(0, 3).Draw(t, "zeros")
	digits, exp := digits+strings.Repeat("0", zeros), v.exp-zeros
	if point := rapid.IntRange(0, 3).Draw(t, "point"); point > 0 {
		exp += point
		digits = strings.Repeat("0", max(0, point+1-len(digits))) + digits
		digits = digits[:len(digits)-point] + "." + digits[len(digits)-point:]
	}
	format := rapid.SampledFrom([]string{"e%d", "E%d", "e%03d", "e%+d"}).Draw(t, "exponent")
	if exp == 0 && rapid.Bool().Draw(t, "bare") {
		return sign + digits
	}
	return sign + digits + fmt.Sprintf(format, exp)
}

// changeLeaf returns a copy of v of another value: one leaf, or one empty container, is replaced.
func changeLeaf(t *rapid.T, v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case string:
		return v + rapid.SampledFrom([]string{"x", "\x00", "\u0301"}).Draw(t, "more")
	case jsonNumber:
		if v.digits == "0" {
			return jsonNumber{"1", -30}
		}
		return rapid.SampledFrom([]jsonNumber{{v.digits, v.exp + 1}, {v.digits + "1", v.exp - 1}, {v.digits, v.exp + 1000}}).Draw(t, "number")
	case []any:
		if len(v) == 0 {
			return map[string]any{}
		}
		c := slices.Clone(v)
		i := rapid.IntRange(0, len(c)-1).Draw(t, "index")
		c[i] = changeLeaf(t, c[i])
		return c
	case map[string]any:
		if len(v) == 0 {
			return nil
		}
		c := maps.Clone(v)
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(c))).Draw(t, "name")
		c[name] = changeLeaf(t, c[name])
		return c
	}
	return []any{}
}

// spelledValue draws from few values, so that equal ones meet.
func spelledValue() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		leaf := rapid.SampledFrom([]any{nil, "a", jsonNumber{"1", 0}, jsonNumber{"1", 1}}).Draw(t, "leaf")
		other := rapid.SampledFrom([]any{leaf, leaf, nil}).Draw(t, "other")
		shapes := []any{leaf, []any{leaf, other}, map[string]any{"a": leaf, "b": other}, map[string]any{"b": other}}
		return respell(t, rapid.SampledFrom(shapes).Draw(t, "shape"))
	})
}

// naiveDecode reads strict JSON the plain way.
func naiveDecode(s string) any {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// naiveEqual compares what naiveDecode returned, expanding numbers.
func naiveEqual(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		return ok && naiveRat(a).Cmp(naiveRat(n)) == 0
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, naiveEqual)
	case map[string]any:
		m, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, m, naiveEqual)
	}
	switch b.(type) {
	case json.Number, []any, map[string]any:
		return false
	}
	return a == b
}

func naiveRat(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		panic(n)
	}
	return r
}

// bigSum adds to an exponent the plain way.
func bigSum(exp string, n int64) string {
	b, ok := new(big.Int).SetString(exp, 10)
	if !ok {
		panic(exp)
	}
	return b.Add(b, big.NewInt(n)).String()
}

// naiveStrict reports the plain way whether ParseValue must accept raw.
func naiveStrict(raw []byte) bool {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return false
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	type level struct {
		names  map[string]bool // nil in an array
		inName bool
	}
	var open []level
	for {
		token, err := d.Token()
		if err == io.EOF {
			return true
		}
		if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open) - 1; n >= 0 && open[n].names != nil {
			open[n].inName = !open[n].inName
			if name, ok := token.(string); ok && open[n].inName {
				if open[n].names[name] {
					return false
				}
				open[n].names[name] = true
			}
		}
		if delim, ok := token.(json.Delim); ok {
			l := level{}
			if delim == '{' {
				l.names = map[string]bool{}
			}
			if open = append(open, l); len(open) > MaxDepth {
				return false
			}
		}
	}
}
