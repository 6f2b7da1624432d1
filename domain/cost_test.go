package domain_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

func TestCostIsExact(t *testing.T) {
	prices := domain.Prices{Currency: "USD", Input: "0.25", Output: "2", CacheRead: "0.025", CacheWrite: "0.3125"}
	for name, c := range map[string]struct {
		prices domain.Prices
		usage  domain.Usage
		want   domain.Amount
	}{
		"nothing":                 {prices, domain.Usage{}, "0"},
		"one token":               {prices, domain.Usage{Input: 1}, "0.00000025"},
		"whole":                   {prices, domain.Usage{Input: 4_000_000, Output: 500_000}, "2"},
		"part of it cached":       {prices, domain.Usage{Input: 1000, Output: 100, CacheRead: 600, CacheWrite: 200}, "0.0003275"},
		"reasoning is output":     {prices, domain.Usage{Output: 10, Reasoning: 8}, "0.00002"},
		"more cached than read":   {prices, domain.Usage{Input: 1, CacheRead: 2}, "0.00000005"},
		"caches at input's price": {domain.Prices{Currency: "USD", Input: "3", Output: "0"}, domain.Usage{Input: 3, CacheRead: 1, CacheWrite: 1}, "0.000009"},
		"smallest":                {domain.Prices{Currency: "USD", Input: "0.000001", Output: "0"}, domain.Usage{Input: 1}, "0.000000000001"},
		"beyond 64 bits": {domain.Prices{Currency: "USD", Input: "999999999.999999", Output: "999999999.999999"},
			domain.Usage{Input: math.MaxInt64, Output: math.MaxInt64}, "18446744073709533167255.926290448386"},
	} {
		require.Equal(t, &domain.Cost{Amount: c.want, Currency: "USD"}, c.prices.Cost(&c.usage), name)
	}
	require.Nil(t, prices.Cost(nil), "nobody counted")
	require.Nil(t, domain.Prices{}.Cost(&domain.Usage{Input: 1}), "no price")
}

func TestCostsAddByCurrency(t *testing.T) {
	var sum domain.Costs
	require.Nil(t, sum.Add(nil))
	one := sum.Add(&domain.Cost{Amount: "0.1", Currency: "USD"})
	two := one.Add(&domain.Cost{Amount: "0.2", Currency: "USD"}).Add(&domain.Cost{Amount: "7", Currency: "EUR"}).Add(nil)
	require.Equal(t, domain.Costs{{Amount: "7", Currency: "EUR"}, {Amount: "0.3", Currency: "USD"}}, two)
	require.Equal(t, domain.Costs{{Amount: "0.1", Currency: "USD"}}, one, "left as it was")

	totals := domain.Totals{}.Add(domain.Assistant{Usage: &domain.Usage{Input: 2, Output: 1}, Cost: &domain.Cost{Amount: "0.5", Currency: "USD"}})
	text, err := json.Marshal(totals)
	require.NoError(t, err)
	require.JSONEq(t, `{"input":2,"output":1,"costs":[{"amount":"0.5","currency":"USD"}]}`, string(text))
	text, err = json.Marshal(domain.Totals{})
	require.NoError(t, err)
	require.JSONEq(t, `{"input":0,"output":0}`, string(text))
}

// However the tokens are split over answers, the sum of what they cost is what all of them cost.
func TestCostsAreAdditive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prices := domain.Prices{Currency: "EUR", Input: "0.123457", Output: "10.5"}
		var costs domain.Costs
		var tokens *domain.Usage
		for range rapid.IntRange(1, 20).Draw(t, "answers") {
			u := &domain.Usage{Input: rapid.Int64Range(0, 1<<40).Draw(t, "in"), Output: rapid.Int64Range(0, 1<<40).Draw(t, "out")}
			costs, tokens = costs.Add(prices.Cost(u)), tokens.Add(u)
		}
		require.Equal(t, domain.Costs{*prices.Cost(tokens)}, costs)
	})
}

func TestCostShape(t *testing.T) {
	checkShapes(t, domain.AssistantMessage, []shape{
		{`{"stopReason":"end_turn","cost":{"amount":"0.25","currency":"USD","x":1}}`, ""},
		{`{"stopReason":"end_turn","cost":{"amount":"0","currency":"USD"}}`, ""},
		{`{"stopReason":"end_turn","cost":{"amount":0.25,"currency":"USD"}}`, "cost"},
		{`{"stopReason":"end_turn","cost":{"amount":"-1","currency":"USD"}}`, "cost"},
		{`{"stopReason":"end_turn","cost":{"amount":"1e3","currency":"USD"}}`, "cost"},
		{`{"stopReason":"end_turn","cost":{"amount":"01","currency":"USD"}}`, "cost"},
		{`{"stopReason":"end_turn","cost":{"amount":"1.","currency":"USD"}}`, "cost"},
		{`{"stopReason":"end_turn","cost":{"amount":"1.0000000000001","currency":"USD"}}`, "cost"},
		{`{"stopReason":"end_turn","cost":{"amount":"1","currency":"usd"}}`, "cost"},
		{`{"stopReason":"end_turn","cost":{"amount":"1"}}`, "cost"},
		{`{"stopReason":"end_turn","cost":"1 USD"}`, "cost"},
	})
	checkShapes(t, domain.RunFinished, []shape{
		{`{"status":"done","costs":[{"amount":"1","currency":"USD"},{"amount":"2","currency":"EUR"}]}`, ""},
		{`{"status":"done","costs":{}}`, "costs"}, {`{"status":"done","costs":[1]}`, "costs"},
		{`{"status":"done","costs":[{"amount":"1","currency":"USD"},{}]}`, "costs"},
	})
	m := domain.Assistant{StopReason: domain.StopEndTurn, Cost: &domain.Cost{Amount: "0.5", Currency: "USD"}}
	p, err := m.Payload(0)
	require.NoError(t, err)
	back, err := domain.ParseAssistant(p)
	require.NoError(t, err)
	require.Equal(t, m.Cost, back.Cost)
	back, err = domain.ParseAssistant(domaintest.Payload(`{"stopReason":"end_turn","cost":{"amount":"1.500","currency":"USD"}}`))
	require.NoError(t, err)
	require.Equal(t, domain.Amount("1.5"), back.Cost.Amount)
}
