package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

type ahead struct{ error }

func (ahead) LedgerHead() domain.Seq { return 0 }
func (ahead) Unwrap() error          { return domain.ErrCursorAhead }

func TestProblems(t *testing.T) {
	head := domain.Seq(0)
	for _, c := range []struct {
		err    error
		status int
		want   problem
	}{
		{domain.ErrNotFound.With("run 7 of tenant x").At("id"), 404, problem{Code: "not_found", Detail: domain.ErrNotFound.Detail}},
		{fmt.Errorf("store: %w", domain.ErrInvalidPayload.At("text").With("must be a string")), 400, problem{Code: "invalid_payload", Field: "text", Detail: "must be a string"}},
		{ahead{errors.New("x")}, 400, problem{Code: "cursor_ahead", Detail: domain.ErrCursorAhead.Detail, Head: &head}},
		{domain.ErrSessionClosed, 409, problem{Code: "session_closed", Detail: domain.ErrSessionClosed.Detail}},
		{domain.ErrTooManyInputs, 429, problem{Code: "too_many_inputs", Detail: domain.ErrTooManyInputs.Detail}},
		{fmt.Errorf("secret host: %w", ports.ErrUnavailable), 503, problem{Code: "unavailable", Detail: "the store cannot be reached or is too busy; the same request may be sent again"}},
		{domain.ErrFenced, 500, problem{Code: "internal", Detail: "something went wrong; the server's log names this request's id"}},
		{errors.New("secret"), 500, problem{Code: "internal", Detail: "something went wrong; the server's log names this request's id"}},
	} {
		h, logs := newTestAPI(&fakeService{err: c.err}, nil)
		w, got := ask(t, h, "/v1/sessions/s")
		require.Equal(t, c.status, w.Code)
		c.want.Type, c.want.Title, c.want.Status = "about:blank", http.StatusText(c.status), c.status
		require.Equal(t, c.want, got)
		require.NotContains(t, w.Body.String(), "secret")
		require.Equal(t, c.status == 503, w.Header().Get("Retry-After") != "")
		errorsLogged := logs.FilterLevelExact(zapcore.ErrorLevel).All()
		require.Len(t, errorsLogged, map[bool]int{true: 1, false: 0}[c.status >= 500])
		if c.status >= 500 {
			require.Equal(t, "minted", errorsLogged[0].ContextMap()["request"])
			require.Equal(t, c.err.Error(), errorsLogged[0].ContextMap()["error"])
		}
	}
}

func TestNotReady(t *testing.T) {
	h, _ := newTestAPI(&fakeService{err: ports.ErrUnavailable}, nil)
	w, p := ask(t, h, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "unavailable", p.Code)
	w, _ = ask(t, h, "/healthz")
	require.Equal(t, http.StatusOK, w.Code)
}

// panicking streams, before or after they wrote.
type panicking struct {
	value any
	begun bool
}

func (s panicking) Serve(w http.ResponseWriter, _ *http.Request, _ domain.SessionRef, _ domain.Seq, _ bool) error {
	if s.begun {
		w.WriteHeader(http.StatusOK)
	}
	panic(s.value)
}

func TestPanics(t *testing.T) {
	h, logs := newTestAPI(&fakeService{}, panicking{value: "boom"})
	w, p := ask(t, h, "/v1/sessions/s/events/stream")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, "internal", p.Code)
	require.NotContains(t, w.Body.String(), "boom")
	require.Equal(t, 1, logs.FilterMessage("panic").Len())

	h, logs = newTestAPI(&fakeService{}, panicking{value: "boom", begun: true})
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { ask(t, h, "/v1/sessions/s/events/stream") }, "the connection is cut")
	require.Equal(t, 1, logs.FilterMessage("panic").Len())

	h, logs = newTestAPI(&fakeService{}, panicking{value: http.ErrAbortHandler})
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { ask(t, h, "/v1/sessions/s/events/stream") })
	require.Zero(t, logs.FilterMessage("panic").Len())
}

func TestAccessLog(t *testing.T) {
	service := &fakeService{}
	h, logs := newTestAPI(service, nil)
	w, _ := ask(t, h, "/v1/sessions/%53?token=secret")
	require.Equal(t, domain.SessionRef{Tenant: "default", Session: "S"}, service.seen)
	require.Equal(t, "minted", w.Header().Get("X-Request-Id"))
	lines := logs.FilterMessage("request").All()
	require.Len(t, lines, 1)
	got := lines[0].ContextMap()
	delete(got, "took")
	require.Equal(t, map[string]any{
		"request": "minted", "tenant": "default", "method": "GET", "path": "/v1/sessions/S", "status": int64(200), "bytes": int64(w.Body.Len()),
	}, got)
}
