package builtin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/builtin"
	"github.com/keel-agent/keel/ports"
	"github.com/keel-agent/keel/ports/portstest"
)

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

type fixedClock struct{}

func (fixedClock) Now() time.Time { return time.Date(2026, 7, 1, 23, 30, 0, 999, time.UTC) }

func TestConformance(t *testing.T) {
	portstest.TestTools(t, portstest.ToolsHarness{
		New:  func(*testing.T) ports.Tools { return builtin.New(clock{}) },
		Good: map[string]string{"time": `{}`, "calculator": `{"expression":"1+1"}`, "sleep": `{"ms":0}`},
		Bad: map[string][]string{
			"time":       {`{"zone":7}`, `{"zone":"Atlantis/Nowhere"}`, `{"when":"now"}`, `{"zone":"Local"}`, `{"zone":"../../etc/passwd"}`},
			"calculator": {`{}`, `{"expression":""}`, `{"expression":2}`, `{"expression":"1","expression":"2"}`, `{"Expression":"1"}`},
			"sleep":      {`{}`, `{"ms":"1"}`, `{"ms":-1}`, `{"ms":1.5}`, `{"ms":3600001}`, `{"ms":1e400}`, `{"ms":1e30}`, `{"ms":1,"ignoreCancel":"yes"}`, `null`},
		},
		Slow: &ports.ToolInvocation{ID: "c1", Name: "sleep", Arguments: `{"ms":3600000}`},
	})
}

func run(t *testing.T, name, args string) (text string, isError bool) {
	out, err := builtin.New(fixedClock{}).Execute(t.Context(), ports.ToolInvocation{ID: "c1", Name: name, Arguments: args})
	require.NoError(t, err)
	require.Len(t, out.Content, 1)
	return out.Content[0].Text, out.IsError
}

func TestReplaySafety(t *testing.T) {
	safe := map[string]bool{}
	for _, s := range builtin.New(clock{}).Specs() {
		safe[s.Name] = s.ReplaySafe
	}
	require.Equal(t, map[string]bool{"time": true, "calculator": true, "sleep": false}, safe)
}

func TestTime(t *testing.T) {
	for args, want := range map[string]string{
		`{}`:                        "2026-07-01T23:30:00Z",
		`{"zone":"UTC"}`:            "2026-07-01T23:30:00Z",
		`{"zone":"Europe/Oslo"}`:    "2026-07-02T01:30:00+02:00",
		`{"zone":"Asia/Kathmandu"}`: "2026-07-02T05:15:00+05:45",
	} {
		got, isError := run(t, "time", args)
		require.False(t, isError)
		require.Equal(t, want, got)
	}
}

func TestBadArgumentsTellWhatIsWrong(t *testing.T) {
	got, isError := run(t, "sleep", `{"ms":"soon"}`)
	require.True(t, isError)
	require.Contains(t, got, "/properties/ms")
	require.Contains(t, got, `want "integer"`)
	require.Contains(t, got, `"maximum":3600000`, "the schema helps the model")
	got, _ = run(t, "nothing", `{}`)
	require.Contains(t, got, `"nothing"`)
}

func TestCalculator(t *testing.T) {
	for expression, want := range map[string]string{
		"1+1": "2", " ( 1.5 + 2 ) * 3 ^ 2 ": "31.5", "0.1+0.2": "0.3", "-2^2": "-4", "(-2)^2": "4", "2^3^2": "512", "2^-2": "0.25",
		"7-2-1": "4", "8/4/2": "1", "2*-3": "-6", "--3": "3", "+4": "4", "1/3": "1/3 (about 0.333333333333333333333333333333)",
		"10/4": "2.5", "1e3": "1000", "1.5E-3": "0.0015", ".5": "0.5", "010": "10", "08": "8", "0^0": "1", "1^99999999999999999999": "1",
		"(-1)^99999999999999999999": "-1", "0^99999999999999999998": "0", "(-1)^4": "1", "2^64": "18446744073709551616", "9007199254740993*1": "9007199254740993",
		"1/3*1e-40": "1/30000000000000000000000000000000000000000 (about 3.33333333333333333333333333333e-41)", "4^(1+1)": "16", "0/5": "0",
	} {
		got, isError := run(t, "calculator", `{"expression":"`+expression+`"}`)
		require.False(t, isError, "%s: %s", expression, got)
		require.Equal(t, want, got, expression)
	}
	for expression, want := range map[string]string{
		"1/0": "division by zero", "0^-1": "division by zero", "2^0.5": "whole number", "1+": "ends", "(1": "closing parenthesis", "1)": "operator",
		"2 2": "operator", "x": "'x'", "é": "'é'", "1..2": "'.'", ".": "not a number", "1e": "not a number", "9^9^9": "too large", "2^99999": "too large",
		"1e99999": "too large", "1e9999": "too large", "2^16383*2^16383": "too large", " ": "ends",
		strings.Repeat("(", 400) + "1": "too deep", strings.Repeat("-", 400) + "1": "too deep", "2" + strings.Repeat("^1", 400): "too deep",
		strings.Repeat("1", 1001): "maxLength",
	} {
		got, isError := run(t, "calculator", `{"expression":"`+expression+`"}`)
		require.True(t, isError, "%s: %s", expression, got)
		require.Contains(t, got, want, expression)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := builtin.New(clock{})
		sleep := func(ctx context.Context, args string) (ports.ToolOutput, time.Duration, error) {
			start := time.Now()
			out, err := tools.Execute(ctx, ports.ToolInvocation{Name: "sleep", Arguments: args})
			return out, time.Since(start), err
		}
		out, took, err := sleep(t.Context(), `{"ms":1500.0}`)
		require.NoError(t, err)
		require.Equal(t, 1500*time.Millisecond, took)
		require.Equal(t, "waited 1500 ms", out.Content[0].Text)

		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
		defer cancel()
		_, took, err = sleep(ctx, `{"ms":1500}`)
		require.ErrorIs(t, err, cause)
		require.Equal(t, 100*time.Millisecond, took)

		ctx, cancel = context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
		defer cancel()
		out, took, err = sleep(ctx, `{"ms":1500,"ignoreCancel":true}`)
		require.NoError(t, err, "it ran to its end")
		require.False(t, out.IsError)
		require.Equal(t, 1500*time.Millisecond, took)
	})
}

func FuzzCalculator(f *testing.F) {
	for _, s := range []string{"1+1", "(2^-3)/.5e2", "-(-1)^9", "1e9999", "((", "2^3^4^5"} {
		f.Add(s)
	}
	tools := builtin.New(fixedClock{})
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsAny(s, "\"\\") {
			return
		}
		out, err := tools.Execute(t.Context(), ports.ToolInvocation{Name: "calculator", Arguments: `{"expression":"` + s + `"}`})
		require.NoError(t, err)
		require.Len(t, out.Content, 1)
	})
}
