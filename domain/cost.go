package domain

import (
	"math/big"
	"slices"
	"strings"
)

// Amount is a sum of money, never negative: an exact decimal without exponent or needless zeros, such as "0.0125". The
// zero value is no amount at all; nothing is "0".
type Amount string

const (
	amountDigits = 24 // before the point, at most
	amountScale  = 12 // after the point, at most: a price of six for a million tokens
	priceDigits  = 9
	priceScale   = 6
)

// parseAmount reads a decimal with at most the given digits before and after the point. It reports false for anything
// else, exponents and signs included.
func parseAmount(s string, digits, scale int) (Amount, bool) {
	whole, fraction, point := strings.Cut(s, ".")
	if whole == "" || point && fraction == "" || len(whole) > digits || len(fraction) > scale ||
		len(whole) > 1 && whole[0] == '0' || strings.Trim(whole+fraction, "0123456789") != "" {
		return "", false
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
		return Amount(whole), true
	}
	return Amount(whole + "." + fraction), true
}

// units returns a as a count of 10^-scale; a has at most scale digits after the point.
func (a Amount) units(scale int) *big.Int {
	whole, fraction, _ := strings.Cut(string(a), ".")
	n := new(big.Int)
	n.SetString(whole+fraction+strings.Repeat("0", scale-len(fraction)), 10)
	return n
}

// amountOf is the amount of n times 10^-amountScale.
func amountOf(n *big.Int) Amount {
	s := n.String()
	if short := amountScale + 1 - len(s); short > 0 {
		s = strings.Repeat("0", short) + s
	}
	point := len(s) - amountScale
	return Amount(strings.TrimSuffix(strings.TrimRight(s[:point]+"."+s[point:], "0"), "."))
}

// Add returns the exact sum of a and b.
func (a Amount) Add(b Amount) Amount {
	return amountOf(new(big.Int).Add(a.units(amountScale), b.units(amountScale)))
}

// Cost is what one answer cost.
type Cost struct {
	Amount   Amount `json:"amount"`
	Currency string `json:"currency"` // three capital letters, as in ISO 4217
}

// Costs are sums, one for each currency, by its name.
type Costs []Cost

// Add returns the sum of c and one more cost; nil counts as nothing. It leaves c as it is.
func (c Costs) Add(one *Cost) Costs {
	if one == nil {
		return c
	}
	sum := slices.Clone(c)
	i, found := slices.BinarySearchFunc(sum, one.Currency, func(have Cost, want string) int {
		return strings.Compare(have.Currency, want)
	})
	if !found {
		return slices.Insert(sum, i, *one)
	}
	sum[i].Amount = sum[i].Amount.Add(one.Amount)
	return sum
}

// Totals are the tokens and the money of some answers.
type Totals struct {
	Usage
	Costs Costs `json:"costs,omitempty"`
}

// Add returns the sum of t and one more answer.
func (t Totals) Add(m Assistant) Totals {
	return Totals{Usage: *t.Usage.Add(m.Usage), Costs: t.Costs.Add(m.Cost)}
}

// After returns t after one more event: an answer or a summary adds what it used.
func (t Totals) After(e Event) (Totals, error) {
	switch e.Kind {
	case AssistantMessage:
		m, err := ParseAssistant(e.Payload)
		return t.Add(m), err
	case Compaction:
		c, err := ParseCompaction(e.Payload)
		return Totals{Usage: *t.Usage.Add(c.Usage), Costs: t.Costs.Add(c.Cost)}, err
	}
	return t, nil
}

// Prices are what a million tokens cost. The zero value is no price at all. CacheRead and CacheWrite may be missing:
// such tokens then cost what Input costs.
type Prices struct {
	Currency   string
	Input      Amount
	Output     Amount
	CacheRead  Amount
	CacheWrite Amount
}

// Cost returns the exact price of u, nil when there is none or the tokens were not counted.
func (p Prices) Cost(u *Usage) *Cost {
	if p.Currency == "" || u == nil {
		return nil
	}
	sum := new(big.Int)
	for _, part := range []struct {
		tokens int64
		price  Amount
	}{
		{max(u.Input-u.CacheRead-u.CacheWrite, 0), p.Input}, {u.Output, p.Output},
		{u.CacheRead, orElse(p.CacheRead, p.Input)}, {u.CacheWrite, orElse(p.CacheWrite, p.Input)},
	} {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(part.tokens), part.price.units(priceScale)))
	}
	return &Cost{Amount: amountOf(sum), Currency: p.Currency}
}

func orElse(a, otherwise Amount) Amount {
	if a == "" {
		return otherwise
	}
	return a
}

// isCurrency reports whether s is spelled like a code of ISO 4217.
func isCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
