package domain

import (
	"fmt"
	"strconv"
	"strings"
)

// decimal is the exact value ±digits × 10^exp of a JSON number. Equal numbers have equal decimals (==). Its size is
// that of the number's text, however large the number.
type decimal struct {
	neg    bool   // never for zero
	digits string // neither begins nor ends with 0; "" is zero
	exp    string // a decimal integer of any length in its shortest spelling; "" for zero
}

// parseDecimal reads a JSON number.
func parseDecimal(raw string) decimal {
	s, neg := strings.CutPrefix(raw, "-")
	exp := ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		s, exp = s[:i], s[i+1:]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits := whole
	if fraction != "" {
		digits = whole + fraction
	}
	significant := strings.TrimRight(digits, "0")
	shift := len(digits) - len(significant) - len(fraction)
	significant = strings.TrimLeft(significant, "0")
	if significant == "" {
		return decimal{}
	}
	return decimal{neg, significant, addToExponent(exp, int64(shift))}
}

// parseInt returns the value of the JSON number raw if it is whole and fits in an int64.
func parseInt(raw string) (int64, bool) {
	if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return n, true
	}
	d := parseDecimal(raw)
	if d.digits == "" {
		return 0, true
	}
	exp, err := strconv.Atoi(d.exp)
	if err != nil || exp < 0 || exp > 18 {
		return 0, false
	}
	sign := ""
	if d.neg {
		sign = "-"
	}
	n, err := strconv.ParseInt(sign+d.digits+strings.Repeat("0", exp), 10, 64)
	return n, err == nil
}

// Exponents are split after their last 18 digits: those fit an int64 with room for any shift by the length of a text.
const (
	tailDigits = 18
	tailLimit  = 1_000_000_000_000_000_000
)

// addToExponent returns exp + shift in its shortest spelling. exp is an optional sign and any number of digits.
func addToExponent(exp string, shift int64) string {
	neg := strings.HasPrefix(exp, "-")
	magnitude := strings.TrimLeft(strings.TrimLeft(exp, "+-"), "0")
	if len(magnitude) <= tailDigits {
		n, _ := strconv.ParseInt(magnitude, 10, 64)
		if neg {
			n = -n
		}
		return strconv.FormatInt(n+shift, 10)
	}
	sign := ""
	if neg {
		sign, shift = "-", -shift
	}
	return sign + addToMagnitude(magnitude, shift)
}

// addToMagnitude adds to a number of more than tailDigits digits what is less than tailLimit.
func addToMagnitude(magnitude string, shift int64) string {
	head, tail := magnitude[:len(magnitude)-tailDigits], magnitude[len(magnitude)-tailDigits:]
	n, _ := strconv.ParseInt(tail, 10, 64)
	switch n += shift; {
	case n < 0:
		head, n = step(head, '0', '9', -1), n+tailLimit
	case n >= tailLimit:
		head, n = step("0"+head, '9', '0', +1), n-tailLimit
	}
	return strings.TrimLeft(head+fmt.Sprintf("%0*d", tailDigits, n), "0")
}

// step adds by to the last digit of s that is not full, and wraps the full ones behind it.
func step(s string, full, wrapped byte, by int) string {
	b := []byte(s)
	i := len(b) - 1
	for ; b[i] == full; i-- {
		b[i] = wrapped
	}
	b[i] = byte(int(b[i]) + by)
	return string(b)
}
