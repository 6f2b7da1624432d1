package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keel-agent/keel/domain"
)

// fakeService answers GetSession, Ready and Capabilities; what else is asked of it panics.
type fakeService struct {
	Service
	err  error
	seen domain.SessionRef
	ctx  context.Context
}

func (f *fakeService) GetSession(ctx context.Context, ref domain.SessionRef) (domain.Outcome, domain.Totals, error) {
	f.seen, f.ctx = ref, ctx
	return domain.Outcome{Session: domain.Session{Ref: ref}}, domain.Totals{}, f.err
}

func (f *fakeService) Ready(context.Context) error { return f.err }

func (*fakeService) Capabilities() (map[string]bool, map[string]int, []string) { return nil, nil, nil }

type fixedID struct{}

func (fixedID) New() string     { return "minted" }
func (fixedID) Jitter() float64 { return 0 }

func newTestAPI(service Service, streams Streams) (http.Handler, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.DebugLevel)
	return New(Config{Service: service, Streams: streams, Auth: Open{}, IDs: fixedID{}, Log: zap.New(core)}), logs
}

func ask(t *testing.T, h http.Handler, path string) (*httptest.ResponseRecorder, problem) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var p problem
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/problem+json") {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
		require.Equal(t, w.Code, p.Status)
	}
	return w, p
}
