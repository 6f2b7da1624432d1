package httpapi

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"
)

//go:embed openapi.json
var openAPIDocument []byte

// readyTimeout is how long the store may take to answer a readiness probe.
const readyTimeout = 2 * time.Second

func (a *api) index(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	writeBytes(w, http.StatusOK, "text/plain; charset=utf-8", fmt.Appendf(nil, indexText, host, host, host))
}

const indexText = `Keel, a durable agent server.

The API is described at /v1/openapi.json. Unless the server runs without authentication, add
-H "Authorization: Bearer $TOKEN" to each call.

  curl -s http://%s/v1/sessions -H 'Content-Type: application/json' -d '{"id":"hello"}'
  curl -s http://%s/v1/sessions/hello/input -H 'Content-Type: application/json' -d '{"text":"hello keel"}'
  curl -sN 'http://%s/v1/sessions/hello/events/stream?partials=1'
`

func (a *api) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (a *api) readyz(w http.ResponseWriter, r *http.Request) {
	select {
	case <-a.Draining:
		writeProblem(w, problem{Code: codeDraining, Detail: "the process is about to end"})
		return
	default:
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := a.Service.Ready(ctx); err != nil {
		a.log.Warn("not ready", requestField(r), zap.Error(err))
		writeProblem(w, problem{Code: codeUnavailable, Detail: "the store does not answer"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (a *api) capabilities(w http.ResponseWriter, _ *http.Request) {
	features, limits, hooks := a.Service.Capabilities()
	writeJSON(w, http.StatusOK, capabilitiesJSON{
		APIVersion: "v1", ServiceVersion: a.ServiceVersion, Features: features, Limits: limits, Hooks: hooks,
	})
}

func (a *api) openAPI(w http.ResponseWriter, _ *http.Request) {
	writeBytes(w, http.StatusOK, "application/json", openAPIDocument)
}
