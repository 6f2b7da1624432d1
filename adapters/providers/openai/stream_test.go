package openai

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// pieces is a body that arrives in given pieces and ends with end.
type pieces struct {
	list []string
	end  error
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.list) > 0 && p.list[0] == "" {
		p.list = p.list[1:]
	}
	if len(p.list) == 0 {
		if p.end == nil {
			return 0, io.EOF
		}
		return 0, p.end
	}
	n := copy(b, p.list[0])
	p.list[0] = p.list[0][n:]
	return n, nil
}

// stride is how far apart the cuts of a stream are: every byte, fewer in short runs.
func stride() int {
	if testing.Short() {
		return 11
	}
	return 1
}

// decoded is everything that a caller sees of an answer.
type decoded struct {
	reply  ports.Reply
	err    error
	deltas []ports.Delta
}

func decode(t testing.TB, body io.Reader) decoded {
	_, watch := wire.NewWatch(t.Context(), 0)
	defer watch.Stop()
	var out decoded
	d := &decoder{emit: func(d ports.Delta) { out.deltas = append(out.deltas, d) }}
	out.reply, out.err = wire.ReadAnswer(body, "asked", d, watch)
	return out
}

func TestFixtures(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			whole := decode(t, &pieces{[]string{f.body}, f.end})
			if f.class == "" {
				require.NoError(t, whole.err)
			} else {
				var fault *ports.ProviderError
				require.ErrorAs(t, whole.err, &fault)
				require.Equal(t, f.class, fault.Class, "%v", fault)
				require.Equal(t, f.code, fault.Code, "%v", fault)
			}
			require.Equal(t, f.want, whole.reply)
			checkDeltas(t, whole)
			for cut := 1; cut < len(f.body); cut += stride() {
				got := decode(t, &pieces{[]string{f.body[:cut], f.body[cut:]}, f.end})
				require.Equal(t, whole, got, "cut at byte %d", cut)
			}
			require.Equal(t, whole, decode(t, iotest.OneByteReader(&pieces{[]string{f.body}, f.end})), "byte by byte")
		})
	}
}

// TestEveryTruncation cuts each good stream off at every byte: it is the same answer, once its finish reason arrived, or
// a retryable fault, and never another answer.
func TestEveryTruncation(t *testing.T) {
	for _, f := range fixtures {
		if f.class != "" {
			continue
		}
		want := decode(t, strings.NewReader(f.body)).reply
		want.Usage = nil
		for end := 0; end < len(f.body); end += stride() {
			for _, broken := range []error{nil, errReset} {
				got := decode(t, &pieces{[]string{f.body[:end]}, broken})
				if got.err == nil {
					got.reply.Usage = nil
					require.Equal(t, want, got.reply, "%s, cut off at byte %d", f.name, end)
					continue
				}
				var fault *ports.ProviderError
				require.ErrorAs(t, got.err, &fault)
				require.Equal(t, ports.Retryable, fault.Class, "%s, cut off at byte %d", f.name, end)
				checkDeltas(t, got)
			}
		}
	}
}

// checkDeltas holds that what was emitted joins to the reply.
func checkDeltas(t testing.TB, d decoded) {
	var text, thinking string
	calls := map[int]*ports.ToolCallPart{}
	for _, e := range d.deltas {
		text += e.Text
		thinking += e.Thinking
		if c := e.ToolCall; c != nil {
			if calls[c.Index] == nil {
				require.NotEmpty(t, c.Name, "the first piece of a call names it")
				calls[c.Index] = &ports.ToolCallPart{Name: c.Name}
			}
			calls[c.Index].Arguments += c.Arguments
		}
	}
	n := 0
	for _, b := range d.reply.Content {
		text = strings.TrimPrefix(text, b.Text)
		thinking = strings.TrimPrefix(thinking, b.Thinking)
		require.Empty(t, b.ID)
		if b.Type == domain.CallBlock {
			n++
		}
		if b.RawArguments != "" && b.RawArguments != " " {
			require.True(t, anyCall(calls, b.RawArguments), "%q was not emitted", b.RawArguments)
		}
	}
	require.Empty(t, text)
	require.Empty(t, thinking)
	require.Equal(t, n, len(calls))
}

func anyCall(calls map[int]*ports.ToolCallPart, arguments string) bool {
	for _, c := range calls {
		if c.Arguments == arguments {
			return true
		}
	}
	return false
}

// TestHeldTextComesBeforeTheNextBlock: what a block still held back is emitted before another block begins.
func TestHeldTextComesBeforeTheNextBlock(t *testing.T) {
	got := decode(t, strings.NewReader(stream(content(`a\ud83d`), delta0(`{"reasoning":"b"}`), finishWith("stop"))))
	require.Equal(t, []ports.Delta{{Text: "a"}, {Text: "\uFFFD"}, {Thinking: "b"}}, got.deltas)
}

// FuzzStream holds for any body that it decodes without panic, and to the same whatever pieces it arrives in.
func FuzzStream(f *testing.F) {
	for _, fix := range fixtures {
		f.Add([]byte(fix.body), uint16(len(fix.body)/2))
	}
	f.Fuzz(func(t *testing.T, body []byte, at uint16) {
		s := string(body)
		whole := decode(t, strings.NewReader(s))
		cut := min(int(at), len(s))
		require.Equal(t, whole, decode(t, &pieces{list: []string{s[:cut], s[cut:]}}))
		require.Equal(t, whole, decode(t, iotest.OneByteReader(strings.NewReader(s))))
		if whole.err == nil {
			require.Contains(t, []domain.StopReason{domain.StopEndTurn, domain.StopToolUse, domain.StopLength, domain.StopRefusal}, whole.reply.StopReason)
		} else if fault := (*ports.ProviderError)(nil); !errors.As(whole.err, &fault) {
			t.Fatalf("%v is no fault of a provider", whole.err)
		}
		checkDeltas(t, whole)
	})
}
