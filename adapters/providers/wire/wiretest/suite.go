package wiretest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Client returns a client whose connections are closed when the test ends.
func Client(t testing.TB) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Ask asks p for an answer to "hi", unless options change the request, and holds that no error tells secret.
func Ask(t testing.TB, p ports.Provider, secret string, options ...func(*ports.ModelRequest)) (ports.Reply, error) {
	t.Helper()
	req := ports.ModelRequest{Messages: []domain.Message{User(Text("hi"))}}
	for _, o := range options {
		o(&req)
	}
	reply, err := p.Generate(t.Context(), req, func(ports.Delta) {})
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		require.NotContains(t, cause.Error(), secret)
	}
	return reply, err
}

// Fault returns err as what it has to be.
func Fault(t testing.TB, err error) *ports.ProviderError {
	t.Helper()
	var fault *ports.ProviderError
	require.ErrorAs(t, err, &fault)
	return fault
}

// Ended is an answer whose only piece of text is "Hello" and that ends in some way.
type Ended struct {
	Answer Response
	Code   string // of the retryable fault that this is; "" for an answer that is complete
}

// TestEnds holds what the ends of connections mean. open returns a provider that gets an answer.
func TestEnds(t *testing.T, open func(t *testing.T, answer Response) ports.Provider, cases map[string]Ended) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			// The end waits until the client has read the answer: a reset may overtake what was sent before it.
			read := make(chan struct{})
			c.Answer.Steps = append(slices.Clip(c.Answer.Steps), Step{Until: read})
			reply, err := open(t, c.Answer).Generate(t.Context(), ports.ModelRequest{}, func(ports.Delta) { close(read) })
			require.Equal(t, []domain.Block{Text("Hello")}, reply.Content)
			checkCode(t, c.Code, err)
		})
	}
}

func checkCode(t *testing.T, code string, err error) {
	t.Helper()
	if code == "" {
		require.NoError(t, err)
		return
	}
	require.Equal(t, code, Fault(t, err).Code)
	require.Equal(t, ports.Retryable, Fault(t, err).Class)
}

// Silence is a body that sends a piece at each interval, the last one without end, and what becomes of it.
type Silence struct {
	Pieces []string
	Want   time.Duration // after which the answer is over
	Code   string        // of the fault, "" for none
}

// TestSilence holds what is a sign of life in an answer, and that none is waited for without end. open returns a provider that
// bears 10 s of silence.
func TestSilence(t *testing.T, interval time.Duration, open func(t *testing.T, client *http.Client) ports.Provider, cases map[string]Silence) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				_, err := Ask(t, open(t, &http.Client{Transport: RoundTrip(func(r *http.Request) (*http.Response, error) {
					body := &slowBody{r.Context(), interval, c.Pieces}
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
				})}), "secret")
				require.Equal(t, c.Want, time.Since(begin))
				checkCode(t, c.Code, err)
			})
		})
	}
	t.Run("no answer at all", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			_, err := Ask(t, open(t, &http.Client{Transport: RoundTrip(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})}), "secret")
			require.Equal(t, 10*time.Second, time.Since(begin))
			checkCode(t, "idle", err)
		})
	})
}

// slowBody is a body that sends a piece at each interval, the last one without end.
type slowBody struct {
	ctx      context.Context
	interval time.Duration
	list     []string
}

func (b *slowBody) Read(p []byte) (int, error) {
	timer := time.NewTimer(b.interval)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	}
	n := copy(p, b.list[0])
	if len(b.list) > 1 {
		b.list = b.list[1:]
	}
	return n, nil
}

func (b *slowBody) Close() error { return nil }

// TestCancelledAtTheEnd holds that a cancellation wins over an answer that was complete by then: p gets the text "x" at once.
func TestCancelledAtTheEnd(t *testing.T, p ports.Provider) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	reply, err := p.Generate(ctx, ports.ModelRequest{}, func(ports.Delta) { cancel(cause) })
	require.ErrorIs(t, err, cause)
	require.Equal(t, []domain.Block{Text("x")}, reply.Content)
}

// TestRefusedSideBySide holds that a request which was under way when another one taught what the model refuses learns the
// same: both are refused once, the first one last, and answered then. s has no answer scripted yet; change makes the request.
func TestRefusedSideBySide(t *testing.T, s *Server, p ports.Provider, change func(*ports.ModelRequest), refusal, answer Response) {
	req := ports.ModelRequest{Messages: []domain.Message{User(Text("hi"))}}
	change(&req)
	taught, both := make(chan struct{}), make(chan struct{})
	late := refusal
	late.Steps = append([]Step{{Until: taught}}, refusal.Steps...)
	s.Push(late)
	go func() {
		defer close(both)
		_, err := p.Generate(t.Context(), req, func(ports.Delta) {})
		assert.NoError(t, err)
	}()
	require.Eventually(t, func() bool { return len(s.Requests()) == 1 }, 5*time.Second, time.Millisecond)
	s.Push(refusal, answer, answer)
	_, err := p.Generate(t.Context(), req, func(ports.Delta) {})
	require.NoError(t, err)
	close(taught)
	<-both
	require.Len(t, s.Requests(), 4)
}
