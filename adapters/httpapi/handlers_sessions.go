package httpapi

import (
	"net/http"

	"github.com/keel-agent/keel/domain"
)

func (a *api) createSession(w http.ResponseWriter, r *http.Request, tenant string) error {
	request, err := a.readOptional(w, r)
	if err != nil {
		return err
	}
	out, usage, err := a.Service.CreateSession(r.Context(), tenant, request)
	if err != nil {
		return err
	}
	writeJSON(w, createdStatus(out), toSession(out.Session, out.Run, &usage))
	return nil
}

// createdStatus tells a first submission from its replay.
func createdStatus(out domain.Outcome) int {
	if out.Created {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (a *api) listSessions(w http.ResponseWriter, r *http.Request, tenant string) error {
	q, err := sessionQuery(r, tenant)
	if err != nil {
		return err
	}
	sessions, active, next, err := a.Service.ListSessions(r.Context(), q, r.URL.Query().Get("cursor"))
	if err != nil {
		return err
	}
	list := listJSON[sessionJSON]{Items: make([]sessionJSON, 0, len(sessions)), NextCursor: next}
	for _, s := range sessions {
		var run *domain.Run
		if found, ok := active[s.ActiveRun]; ok {
			run = &found
		}
		list.Items = append(list.Items, toSession(s, run, nil))
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

func (a *api) getSession(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	out, usage, err := a.Service.GetSession(r.Context(), ref)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, toSession(out.Session, out.Run, &usage))
	return nil
}

func (a *api) patchSession(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	patch, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	out, usage, err := a.Service.PatchSession(r.Context(), ref, patch)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, toSession(out.Session, out.Run, &usage))
	return nil
}

func (a *api) closeSession(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	if _, err := a.readOptional(w, r); err != nil {
		return err
	}
	out, usage, err := a.Service.CloseSession(r.Context(), ref)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, toSession(out.Session, out.Run, &usage))
	return nil
}
