package differential

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// fixturesDir names the environment variable with the directory that wiretest.TestFixtures wrote the fixtures to, one
// directory for each package.
const fixturesDir = "KEEL_FIXTURES_DIR"

// answer is what both sides make of a stream.
type answer struct {
	Text  string
	Calls []call
	Stop  string // as domain.StopReason; the SDK's own where that has none
	Usage *domain.Usage
}

type call struct {
	Name      string
	Arguments any // the JSON value, or a text that is none
}

// oracle is a provider and the SDK for its wire. Each reads what its client answers.
type oracle struct {
	open func(client *http.Client) (ports.Provider, error)
	sdk  func(t *testing.T, client *http.Client) (answer, error)
}

var oracles = map[string]oracle{
	"anthropic": {openAnthropic, askAnthropic},
	"gemini":    {openGemini, askGemini},
	"openai":    {openChat, askChat},
	"responses": {openResponses, askResponses},
}

// TestDifferential: where the SDK reads an answer out of a stream, this project reads the same one, but for the
// differences that are meant. One that is listed and not there fails, too.
func TestDifferential(t *testing.T) {
	root := os.Getenv(fixturesDir)
	require.NotEmpty(t, root, "run this by make differential")
	unmet := maps.Clone(faults)
	for wire, o := range oracles {
		t.Run(wire, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(root, wire, "*.sse"))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			meant := maps.Clone(values[wire])
			agreed, unread := 0, 0
			for _, f := range files {
				body, err := os.ReadFile(f)
				require.NoError(t, err)
				name, err := url.PathUnescape(strings.TrimSuffix(filepath.Base(f), ".sse"))
				require.NoError(t, err)
				found, read := o.compare(t, string(body))
				switch {
				case !read:
					unread++
				case found == difference{}:
					agreed++
				case faults[found.fault] != "":
					delete(unmet, found.fault)
				case found.fault == "" && meant[name] != "":
					delete(meant, name)
				default:
					t.Errorf("%s: %s%s", name, found.fault, found.values)
				}
			}
			require.Empty(t, meant, "these no longer differ")
			require.NotZero(t, agreed, "nothing was compared")
			t.Logf("%d streams, %d read alike, %d that the SDK fails to read, %d meant differences", len(files), agreed, unread, len(files)-agreed-unread)
		})
	}
	require.Empty(t, unmet, "no stream has these faults any more")
}

// difference is how this project differs from an SDK that reads an answer: in the fault that it finds, or in what it reads.
type difference struct{ fault, values string }

// compare returns how the two differ. ok is false when the SDK fails: it can tell nothing then.
func (o oracle) compare(t *testing.T, body string) (found difference, ok bool) {
	client := &http.Client{Transport: playing(body)}
	theirs, err := o.sdk(t, client)
	if err != nil {
		return difference{}, false
	}
	p, err := o.open(client)
	require.NoError(t, err)
	reply, err := p.Generate(t.Context(), ports.ModelRequest{Model: "m"}, func(ports.Delta) {})
	var fault *ports.ProviderError
	if errors.As(err, &fault) {
		return difference{fault: fault.Code}, true
	}
	require.NoError(t, err)
	ours := answerOf(reply)
	if ours.Usage == nil {
		theirs.Usage = nil // SDKs cannot tell nothing from zero
	}
	a, b := show(t, ours), show(t, theirs)
	if a == b {
		return difference{}, true
	}
	return difference{values: "ours " + a + ", theirs " + b}, true
}

func show(t *testing.T, a answer) string {
	b, err := json.Marshal(a)
	require.NoError(t, err)
	return string(b)
}

// playing answers each request with the same stream.
type playing string

func (p playing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body{strings.NewReader(string(p))}, Request: r,
	}, nil
}

type body struct{ *strings.Reader }

func (body) Close() error { return nil }

func answerOf(r ports.Reply) answer {
	a := answer{Stop: string(r.StopReason), Usage: r.Usage}
	for _, b := range r.Content {
		switch b.Type {
		case domain.TextBlock:
			a.Text += b.Text
		case domain.CallBlock:
			a.call(b.Name, b.Arguments+b.RawArguments)
		}
	}
	return a
}

// call adds a call with the text of its arguments; SDKs leave it to their callers that none at all means an empty object.
func (a *answer) call(name, arguments string) {
	if arguments == "" || arguments == "null" {
		arguments = "{}"
	}
	var value any = arguments
	var object map[string]any
	if json.Unmarshal([]byte(arguments), &object) == nil {
		value = object
	}
	a.Calls = append(a.Calls, call{name, value})
}
