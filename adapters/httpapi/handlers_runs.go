package httpapi

import (
	"context"
	"net/http"

	"github.com/keel-agent/keel/domain"
)

func (a *api) ensureRun(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	return a.ask(w, r, ref, a.Service.EnsureRun)
}

func (a *api) compact(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	return a.ask(w, r, ref, a.Service.Compact)
}

// ask asks for a run and answers with it. The request says nothing more.
func (a *api) ask(
	w http.ResponseWriter, r *http.Request, ref domain.SessionRef, ensure func(context.Context, domain.SessionRef) (*domain.Run, error),
) error {
	if _, err := a.readOptional(w, r); err != nil {
		return err
	}
	run, err := ensure(r.Context(), ref)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusAccepted, runAnswer{Run: toRun(run)})
	return nil
}

func (a *api) cancel(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	request, err := a.readOptional(w, r)
	if err != nil {
		return err
	}
	run, err := a.Service.Cancel(r.Context(), ref, request)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusAccepted, runAnswer{Run: toRun(run)})
	return nil
}

func (a *api) listRuns(w http.ResponseWriter, r *http.Request, ref domain.SessionRef) error {
	n, err := pageQuery(r)
	if err != nil {
		return err
	}
	runs, next, err := a.Service.Runs(r.Context(), ref, r.URL.Query().Get("cursor"), n)
	if err != nil {
		return err
	}
	list := listJSON[*runJSON]{Items: make([]*runJSON, 0, len(runs)), NextCursor: next}
	for i := range runs {
		list.Items = append(list.Items, toRun(&runs[i]))
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}
