package wiretest

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Fixture is the body of an answer, and the one reply that it means however it is cut into pieces.
type Fixture struct {
	Name string
	Body string
	End  error // how reading the body ends, nil for a clean end
	Want ports.Reply
	// Of a body that is no answer:
	Class ports.FaultClass
	Code  string
}

// Ending returns f with another end of its body.
func (f Fixture) Ending(err error) Fixture { f.End = err; return f }

// Counting returns f with another usage.
func (f Fixture) Counting(u *domain.Usage) Fixture { f.Want.Usage = u; return f }

// By returns f with another model.
func (f Fixture) By(model string) Fixture { f.Want.Model = model; return f }

// StreamOf returns the stream of testdata/streams with a name.
func StreamOf(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "streams", name+".sse"))
	require.NoError(t, err)
	return string(b)
}

// Streams returns the fixtures that say what the streams of testdata/streams mean, by name. Each stream has to have a meaning.
func Streams(t testing.TB, meanings map[string]Fixture) (list []Fixture) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "streams", "*.sse"))
	require.NoError(t, err)
	require.Len(t, files, len(meanings))
	for _, name := range slices.Sorted(maps.Keys(meanings)) {
		f := meanings[name]
		f.Name, f.Body = name, StreamOf(t, name)
		list = append(list, f)
	}
	return list
}

// NewDecoder returns a decoder of a wire that shows its pieces to emit.
type NewDecoder func(emit func(ports.Delta)) wire.Decoder

// Decoded is everything that a caller sees of an answer.
type Decoded struct {
	Reply  ports.Reply
	Err    error
	Deltas []ports.Delta
}

// Decode reads body.
func (n NewDecoder) Decode(t testing.TB, body io.Reader) Decoded {
	_, watch := wire.NewWatch(t.Context(), 0)
	defer watch.Stop()
	var out Decoded
	d := n(func(d ports.Delta) { out.Deltas = append(out.Deltas, d) })
	out.Reply, out.Err = wire.ReadAnswer(body, "asked", d, watch)
	return out
}

// TestFixtures holds that each body means what its fixture says: whole, in two pieces cut at every byte, byte by byte,
// and in pieces of any number and size.
//
// With KEEL_FIXTURES_DIR in the environment it also writes the bodies there, for the module that compares with SDKs.
func TestFixtures(t *testing.T, n NewDecoder, fixtures []Fixture) {
	write(t, fixtures)
	for _, f := range fixtures {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			whole := n.Decode(t, Pieces(f.End, f.Body))
			if f.Class == "" {
				require.NoError(t, whole.Err)
			} else {
				var fault *ports.ProviderError
				require.ErrorAs(t, whole.Err, &fault)
				require.Equal(t, f.Class, fault.Class, "%v", fault)
				require.Equal(t, f.Code, fault.Code, "%v", fault)
			}
			require.Equal(t, f.Want, whole.Reply)
			checkDeltas(t, whole)
			again := n.Remembered()
			for cut := 1; cut < len(f.Body); cut += stride() {
				if got := again.Decode(t, Pieces(f.End, f.Body[:cut], f.Body[cut:])); !reflect.DeepEqual(whole, got) {
					require.Equal(t, whole, got, "cut at byte %d", cut)
				}
			}
			require.Equal(t, whole, n.Decode(t, iotest.OneByteReader(Pieces(f.End, f.Body))), "byte by byte")
			random := rand.New(rand.NewPCG(1, 2))
			for range 40 {
				list := cutUp(random, f.Body)
				require.Equal(t, whole, n.Decode(t, Pieces(f.End, list...)), "in the pieces %q", list)
			}
		})
	}
}

// write puts the bodies into a directory of their own, named like that of the test.
func write(t *testing.T, fixtures []Fixture) {
	root := os.Getenv("KEEL_FIXTURES_DIR")
	if root == "" {
		return
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	dir := filepath.Join(root, filepath.Base(here))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, f := range fixtures {
		require.NoError(t, os.WriteFile(filepath.Join(dir, url.PathEscape(f.Name)+".sse"), []byte(f.Body), 0o644))
	}
}

// TestTruncations cuts each good stream off at every byte: it is the same answer, once its stop reason arrived, or a
// retryable fault, and never another answer.
func TestTruncations(t *testing.T, n NewDecoder, fixtures []Fixture) {
	for _, f := range fixtures {
		if f.Class != "" {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			want := n.Decode(t, strings.NewReader(f.Body)).Reply
			want.Usage = nil
			again := n.Remembered()
			for end := 0; end < len(f.Body); end += stride() {
				for _, broken := range []error{nil, errors.New("connection reset by peer")} {
					checkTruncated(t, want, again.Decode(t, Pieces(broken, f.Body[:end])), end)
				}
			}
		})
	}
}

// checkTruncated holds that what a stream cut off at a byte came to is want, or a retryable fault.
func checkTruncated(t *testing.T, want ports.Reply, got Decoded, end int) {
	if got.Err == nil {
		got.Reply.Usage = nil
		require.Equal(t, want, got.Reply, "cut off at byte %d", end)
		return
	}
	if fault := (*ports.ProviderError)(nil); !errors.As(got.Err, &fault) || fault.Class != ports.Retryable {
		t.Fatalf("cut off at byte %d: %v is no retryable fault", end, got.Err)
	}
	checkDeltas(t, got)
}

// Fuzz holds for any body that it decodes without panic, and to the same whatever pieces it arrives in.
func Fuzz(f *testing.F, n NewDecoder, fixtures []Fixture) {
	for _, fix := range fixtures {
		f.Add([]byte(fix.Body), uint16(len(fix.Body)/2))
	}
	f.Fuzz(func(t *testing.T, body []byte, at uint16) {
		s := string(body)
		whole := n.Decode(t, strings.NewReader(s))
		cut := min(int(at), len(s))
		require.Equal(t, whole, n.Decode(t, Pieces(nil, s[:cut], s[cut:])))
		require.Equal(t, whole, n.Decode(t, iotest.OneByteReader(strings.NewReader(s))))
		if whole.Err == nil {
			require.Contains(t, []domain.StopReason{domain.StopEndTurn, domain.StopToolUse, domain.StopLength, domain.StopRefusal}, whole.Reply.StopReason)
		} else if fault := (*ports.ProviderError)(nil); !errors.As(whole.Err, &fault) {
			t.Fatalf("%v is no fault of a provider", whole.Err)
		}
		checkDeltas(t, whole)
	})
}

// Pieces returns a body that arrives in the given pieces and ends with end, nil for a clean end.
func Pieces(end error, list ...string) io.Reader { return &pieces{list, end} }

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

func cutUp(random *rand.Rand, s string) []string {
	var list []string
	whole := len(s)
	for len(s) > 0 {
		n := 1 + random.IntN(min(len(s), 1+random.IntN(whole)))
		list, s = append(list, s[:n]), s[n:]
	}
	return list
}

// stride is how far apart the cuts of a stream are: every byte, fewer in short runs.
func stride() int {
	if testing.Short() {
		return 11
	}
	return 1
}

// checkDeltas holds that what was emitted joins to the reply.
func checkDeltas(t testing.TB, d Decoded) {
	t.Helper()
	var text, thinking string
	calls := map[int]*ports.ToolCallPart{}
	for _, e := range d.Deltas {
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
	order := slices.Sorted(maps.Keys(calls)) // a call without a name is neither emitted nor in the reply
	n := 0
	for _, b := range d.Reply.Content {
		text = strings.TrimPrefix(text, b.Text)
		thinking = strings.TrimPrefix(thinking, b.Thinking)
		require.Empty(t, b.ID)
		if b.Type != domain.CallBlock {
			continue
		}
		require.Less(t, n, len(order), "a call was not emitted")
		if strings.TrimSpace(b.RawArguments) != "" {
			require.Equal(t, b.RawArguments, calls[order[n]].Arguments)
		}
		n++
	}
	require.Empty(t, text)
	require.Empty(t, thinking)
	require.Equal(t, n, len(calls))
}
