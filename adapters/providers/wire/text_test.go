package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func TestTextJoinsPieces(t *testing.T) {
	for _, c := range []struct {
		pieces []string // the inner parts of JSON strings
		want   string
	}{
		{[]string{`a`, ``, `b`}, "ab"},
		{[]string{`\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC`}, "\"\\/\b\f\n\r\tAé€"},
		{[]string{`\ud83d\ude00`}, "😀"},
		{[]string{`\ud83d`, `\ude00`}, "😀"},
		{[]string{`\ud83d`, ``, `\ude00`}, "😀"},
		{[]string{`\ud83d`}, "\uFFFD"},
		{[]string{`\ude00`}, "\uFFFD"},
		{[]string{`\ud83d`, `\ud83d\ude00`}, "\uFFFD😀"},
		{[]string{`\ud83d`, `x`}, "\uFFFDx"},
		{[]string{`\ud83d`, `\n`}, "\uFFFD\n"},
		{[]string{"\xf0\x9f", "\x98\x80"}, "😀"},
		{[]string{"\xf0", "\x9f", "\x98", "\x80!"}, "😀!"},
		{[]string{"\xe2\x82", "x"}, "\uFFFDx"},
		{[]string{"\xe2\x82"}, "\uFFFD"},
		{[]string{"\xe2", `\ud83d`, `\ude00`}, "\uFFFD😀"},
		{[]string{"\xffa\xc0"}, "\uFFFDa\uFFFD"},
	} {
		var text wire.Text
		emitted := ""
		for _, p := range c.pieces {
			emitted += text.Add([]byte(`"` + p + `"`))
			require.Equal(t, emitted, text.String())
		}
		emitted += text.End()
		require.Equal(t, c.want, emitted, "%q", c.pieces)
		require.Equal(t, c.want, text.String())
		require.Empty(t, text.End())
	}
	var text wire.Text
	for _, none := range []string{``, `null`, `7`, `{}`, `"`} {
		require.Empty(t, text.Add([]byte(none)))
	}
}

// TestTextAgreesWithJSON holds for valid strings that any cut between their units gives what a JSON decoder gives.
func TestTextAgreesWithJSON(t *testing.T) {
	for _, s := range []string{`a\u0000b`, `\u00e9é\ud83d\ude00😀\\u0041\"`, `\ud83dx\ude00`} {
		var want string
		require.NoError(t, json.Unmarshal([]byte(`"`+s+`"`), &want))
		for cut := range len(s) {
			if !json.Valid([]byte(`"`+s[:cut]+`"`)) || !json.Valid([]byte(`"`+s[cut:]+`"`)) {
				continue
			}
			var text wire.Text
			got := text.Add([]byte(`"`+s[:cut]+`"`)) + text.Add([]byte(`"`+s[cut:]+`"`)) + text.End()
			require.Equal(t, want, got, "%s cut at %d", s, cut)
		}
	}
}

func TestClean(t *testing.T) {
	require.Equal(t, "d\uFFFDi\uFFFD\x01\u2028\uFFFD", wire.Clean("d\x00i\x00\x01\u2028\xfe"))
	require.Equal(t, `{"a":"\ufffd","b":"\\u0000","c":"\\\ufffd","d":"\"\ufffd"}`, wire.CleanJSON(`{"a":"\u0000","b":"\\u0000","c":"\\\u0000","d":"\"\u0000"}`))
	require.Equal(t, `{"a":1}`, wire.CleanJSON(`{"a":1}`))

	for _, c := range []struct {
		block domain.Block
		text  string
		ok    bool
	}{
		{domain.Block{Thinking: "hm"}, "hm", true},
		{domain.Block{Thinking: "h\x00m"}, "h\uFFFDm", true},
		{domain.Block{Thinking: "hm", Signature: "s"}, "hm", true},
		{domain.Block{Thinking: "h\x00m", Signature: "s"}, "h\uFFFDm", false},
		{domain.Block{Thinking: "hm", Signature: "\x00"}, "hm", false},
	} {
		got, ok := wire.CleanThinking(c.block)
		require.Equal(t, c.text, got.Thinking)
		require.Equal(t, c.ok, ok, "%+v", c.block)
	}
}

func TestFinishArguments(t *testing.T) {
	for text, want := range map[string][2]string{
		"": {"{}", ""}, " \n": {"{}", ""}, "null": {"{}", ""}, " null ": {"{}", ""}, `{}`: {"{}", ""},
		` { "b" : 1 , "a" : 8123456789012345677 } `: {`{"b":1,"a":8123456789012345677}`, ""},
		`{"m":1e400,"z":-0,"f":1.0}`:                {`{"m":1e400,"z":-0,"f":1.0}`, ""},
		`{"s":"\ud83d\ude00\ud83d"}`:                {`{"s":"😀` + "\uFFFD" + `"}`, ""},
		`{"s":"\u0000"}`:                            {`{"s":"\u0000"}`, ""},
		`{"a":1}{"a":1}`:                            {"", `{"a":1}{"a":1}`},
		`{"a":`:                                     {"", `{"a":`},
		`{"a":1,"a":2}`:                             {"", `{"a":1,"a":2}`},
		`{'a':1}`:                                   {"", `{'a':1}`},
		`"{}"`:                                      {"", `"{}"`},
		`[{}]`:                                      {"", `[{}]`},
		`nul`:                                       {"", `nul`},
	} {
		arguments, raw := wire.FinishArguments(text)
		require.Equal(t, want, [2]string{arguments, raw}, "%q", text)
	}
	deep := strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)
	_, raw := wire.FinishArguments(deep)
	require.Equal(t, deep, raw)

	for _, text := range []string{"", " "} {
		arguments, raw := wire.CutArguments(text)
		require.Empty(t, arguments)
		require.Equal(t, " ", raw)
	}
}

func TestStray(t *testing.T) {
	for body, want := range map[string]string{
		"": "",
		"data: x\n\n: c\nevent: e\nid\nretry:3\n\n": "",
		"\xef\xbb\xbfdata: x\n\n":                   "",
		"\xef\xbb\xbf{\"a\":1}\n":                   "{\"a\":1}\n",
		"{\"a\":1}":                                 "{\"a\":1}",
		"{}":                                        "{}",
		"data: x\r\nhello\r\n\r\nworld, dear":       "hello\nworld, dear",
		"datax: y\n  \ndat\n":                       "datax: y\ndat\n",
		"{\n  \"error\": \"x\"\n}\n":                "{\n  \"error\": \"x\"\n}\n",
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(body), "bytes": iotest.OneByteReader(strings.NewReader(body))} {
			s := wire.NewStream(r)
			for _, err := range s.Events() {
				require.NoError(t, err)
			}
			require.Equal(t, want, string(s.Stray()), "%q, %s", body, name)
		}
	}
	s := wire.NewStream(strings.NewReader(strings.Repeat("x", 1<<20) + "\n"))
	for _, err := range s.Events() {
		require.NoError(t, err)
	}
	require.Len(t, s.Stray(), 64<<10)
}

func TestEventsEnd(t *testing.T) {
	broken := errors.New("broken")
	s := wire.NewStream(io.MultiReader(strings.NewReader("event: a\ndata: 1\ndata: 2\n\nevent: none\n\ndata: 3\n\ndata: half"), iotest.ErrReader(broken)))
	var got []wire.Event
	var last error
	for e, err := range s.Events() {
		if last = err; err == nil {
			got = append(got, e)
		}
	}
	require.Equal(t, []wire.Event{{Type: "a", Data: "1\n2"}, {Data: "3"}}, got)
	require.ErrorIs(t, last, broken)
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, watch := wire.NewWatch(t.Context(), time.Minute)
		defer watch.Stop()
		time.AfterFunc(50*time.Second, watch.Alive)
		begin := time.Now()
		<-ctx.Done()
		require.Equal(t, 110*time.Second, time.Since(begin))
		var fault *ports.ProviderError
		require.ErrorAs(t, watch.Fault(ctx.Err()), &fault)
		require.Equal(t, "idle", fault.Code)
	})
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, watch := wire.NewWatch(parent, 0)
		cancel(cause)
		<-ctx.Done()
		require.Equal(t, cause, watch.Fault(ctx.Err()))
		watch.Stop()
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, watch := wire.NewWatch(t.Context(), time.Second)
		watch.Stop()
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	})
}
