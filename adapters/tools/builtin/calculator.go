package builtin

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/ports"
)

var calculatorSpec = ports.ToolSpec{
	Name:        "calculator",
	Description: "Computes an arithmetic expression exactly: numbers, + - * / ^ and parentheses. ^ takes whole exponents.",
	Schema: `{"type":"object","properties":{"expression":{"type":"string","minLength":1,"maxLength":1000,` +
		`"description":"for instance (1.5 + 2) * 3^2"}},"required":["expression"],"additionalProperties":false}`,
	ReplaySafe: true,
}

func calculate(_ context.Context, call toolset.Call) (string, error) {
	n, err := evaluate(call.Args.Text("expression"))
	if err != nil {
		return "", err
	}
	return format(n), nil
}

const (
	// maxBits bounds the numerator and the denominator of every value on the way.
	maxBits = 1 << 14
	// maxNesting bounds parentheses, signs and powers within each other.
	maxNesting = 100
	// digits is how many digits of a result without an end are told.
	digits = 30
)

var errTooBig = errors.New("a value on the way is too large or too precise")

// parser evaluates while it reads: sum = product {(+|-) product}; product = factor {(*|/) factor};
// factor = [+|-] factor | power; power = atom [^ factor]; atom = number | ( sum ). So -2^2 is -4, and 2^3^2 is 2^9.
type parser struct {
	s     string
	i     int
	depth int
}

func evaluate(s string) (*big.Rat, error) {
	p := &parser{s: s}
	n, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.peek() != 0 {
		return nil, p.unexpected("an operator")
	}
	return n, nil
}

// peek returns the next byte that is no white space, 0 at the end.
func (p *parser) peek() byte {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
		p.i++
	}
	if p.i == len(p.s) {
		return 0
	}
	return p.s[p.i]
}

func (p *parser) unexpected(wanted string) error {
	if p.peek() == 0 {
		return fmt.Errorf("the expression ends where %s is expected", wanted)
	}
	r := []rune(p.s[p.i:])[0]
	return fmt.Errorf("unexpected %q at byte %d where %s is expected", r, p.i, wanted)
}

func (p *parser) sum() (*big.Rat, error) {
	n, err := p.product()
	for err == nil {
		op := p.peek()
		if op != '+' && op != '-' {
			return n, nil
		}
		p.i++
		var m *big.Rat
		if m, err = p.product(); err != nil {
			break
		}
		if op == '+' {
			n, err = bounded(n.Add(n, m))
		} else {
			n, err = bounded(n.Sub(n, m))
		}
	}
	return nil, err
}

func (p *parser) product() (*big.Rat, error) {
	n, err := p.factor()
	for err == nil {
		op := p.peek()
		if op != '*' && op != '/' {
			return n, nil
		}
		p.i++
		var m *big.Rat
		if m, err = p.factor(); err != nil {
			break
		}
		switch {
		case op == '*':
			n, err = bounded(n.Mul(n, m))
		case m.Sign() == 0:
			err = errors.New("division by zero")
		default:
			n, err = bounded(n.Quo(n, m))
		}
	}
	return nil, err
}

func (p *parser) factor() (*big.Rat, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, errors.New("the expression is nested too deep")
	}
	defer func() { p.depth-- }()
	switch p.peek() {
	case '+':
		p.i++
		return p.factor()
	case '-':
		p.i++
		n, err := p.factor()
		if err != nil {
			return nil, err
		}
		return n.Neg(n), nil
	}
	return p.power()
}

func (p *parser) power() (*big.Rat, error) {
	base, err := p.atom()
	if err != nil || p.peek() != '^' {
		return base, err
	}
	p.i++
	exponent, err := p.factor()
	if err != nil {
		return nil, err
	}
	return raise(base, exponent)
}

// raise returns base to a whole power. 0^0 is 1.
func raise(base, exponent *big.Rat) (*big.Rat, error) {
	if !exponent.IsInt() {
		return nil, errors.New("an exponent must be a whole number")
	}
	e := new(big.Int).Abs(exponent.Num())
	size := int64(max(base.Num().BitLen(), base.Denom().BitLen()))
	switch {
	case exponent.Sign() < 0 && base.Sign() == 0:
		return nil, errors.New("division by zero")
	case size <= 1 && e.Sign() > 0: // of 0, 1 and -1 only whether the exponent is odd matters
		e.SetInt64(2 - int64(e.Bit(0)))
	case !e.IsInt64() || e.Int64() > maxBits || (size-1)*e.Int64() > maxBits:
		return nil, errTooBig
	}
	n := new(big.Rat).SetFrac(new(big.Int).Exp(base.Num(), e, nil), new(big.Int).Exp(base.Denom(), e, nil))
	if exponent.Sign() < 0 {
		n.Inv(n)
	}
	return bounded(n)
}

func (p *parser) atom() (*big.Rat, error) {
	switch c := p.peek(); {
	case c == '(':
		p.i++
		n, err := p.sum()
		if err != nil {
			return nil, err
		}
		if p.peek() != ')' {
			return nil, p.unexpected("a closing parenthesis")
		}
		p.i++
		return n, nil
	case digit(c) || c == '.':
		return p.number()
	}
	return nil, p.unexpected("a number")
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// number reads digits with a point and an exponent of at most four digits.
func (p *parser) number() (*big.Rat, error) {
	start := p.i
	p.skipDigits()
	if p.i < len(p.s) && p.s[p.i] == '.' {
		p.i++
		p.skipDigits()
	}
	if p.i < len(p.s) && (p.s[p.i] == 'e' || p.s[p.i] == 'E') {
		p.i++
		if p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '-') {
			p.i++
		}
		if from := p.i; p.skipDigits()-from > 4 {
			return nil, errTooBig
		}
	}
	n, ok := new(big.Rat).SetString(p.s[start:p.i])
	if !ok {
		return nil, fmt.Errorf("%q is not a number", p.s[start:p.i])
	}
	return bounded(n)
}

// skipDigits returns the index behind the digits that it skips.
func (p *parser) skipDigits() int {
	for p.i < len(p.s) && digit(p.s[p.i]) {
		p.i++
	}
	return p.i
}

func bounded(n *big.Rat) (*big.Rat, error) {
	if n.Num().BitLen() > maxBits || n.Denom().BitLen() > maxBits {
		return nil, errTooBig
	}
	return n, nil
}

// format returns n exactly: as a decimal if that ends, else as a fraction with its rounded value.
func format(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	if places, exact := n.FloatPrec(); exact {
		return n.FloatString(places)
	}
	about := new(big.Float).SetPrec(4 * digits).SetRat(n)
	return n.String() + " (about " + about.Text('g', digits) + ")"
}
