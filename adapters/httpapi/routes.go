package httpapi

import (
	"net/http"

	"github.com/keel-agent/keel/domain"
)

// routes is the one list of what the API serves; the OpenAPI document describes the same.
func (a *api) routes() []route {
	get, post, put := http.MethodGet, http.MethodPost, http.MethodPut
	return []route{
		{"/", methods{get: a.index}},
		{"/healthz", methods{get: a.healthz}},
		{"/readyz", methods{get: a.readyz}},
		{"/v1/capabilities", methods{get: a.capabilities}},
		{"/v1/openapi.json", methods{get: a.openAPI}},
		{"/v1/sessions", methods{get: a.tenant(a.listSessions), post: a.tenant(a.createSession)}},
		{"/v1/sessions/{id}", methods{get: a.session(a.getSession), http.MethodPatch: a.session(a.patchSession)}},
		{"/v1/sessions/{id}/close", methods{post: a.session(a.closeSession)}},
		{"/v1/sessions/{id}/input", methods{post: a.session(a.submitInput)}},
		{"/v1/sessions/{id}/events", methods{get: a.session(a.listEvents), post: a.session(a.appendEvent)}},
		{"/v1/sessions/{id}/events/stream", methods{get: a.session(a.streamEvents)}},
		{"/v1/sessions/{id}/messages", methods{get: a.session(a.listMessages)}},
		{"/v1/sessions/{id}/run", methods{post: a.session(a.ensureRun)}},
		{"/v1/sessions/{id}/compact", methods{post: a.session(a.compact)}},
		{"/v1/sessions/{id}/runs", methods{get: a.session(a.listRuns)}},
		{"/v1/sessions/{id}/cancel", methods{post: a.session(a.cancel)}},
		{"/v1/settings/models", methods{get: a.tenant(a.getModels), put: a.tenant(a.putModels)}},
		{"/v1/settings/secrets", methods{get: a.tenant(a.listSecrets)}},
		{"/v1/settings/secrets/{name}", methods{put: a.tenant(a.putSecret), http.MethodDelete: a.tenant(a.deleteSecret)}},
	}
}

// tenant adapts a handler that works for the caller's tenant; the error it returns becomes the answer.
func (a *api) tenant(h func(w http.ResponseWriter, r *http.Request, tenant string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r, exchangeOf(r).tenant); err != nil {
			a.fail(w, r, err)
		}
	}
}

// session adapts a handler that works on the session that the path names within the caller's tenant. An id that no
// session can have is answered as a session that does not exist.
func (a *api) session(h func(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error) http.HandlerFunc {
	return a.tenant(func(w http.ResponseWriter, r *http.Request, tenant string) error {
		id := r.PathValue("id")
		if domain.CheckID(id) != nil {
			return domain.ErrNotFound
		}
		return h(w, r, domain.SessionRef{Tenant: tenant, Session: id})
	})
}
