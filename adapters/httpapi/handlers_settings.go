package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func (a *api) getModels(w http.ResponseWriter, r *http.Request, tenant string) error {
	s, err := a.Service.ModelSettings(r.Context(), tenant)
	if err != nil {
		return err
	}
	writeModels(w, s)
	return nil
}

// putModels replaces the tenant's whole document. With If-Match nothing is lost that somebody else wrote meanwhile.
func (a *api) putModels(w http.ResponseWriter, r *http.Request, tenant string) error {
	expected, err := ifMatch(r.Header.Get("If-Match"))
	if err != nil {
		return err
	}
	document, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	s, err := a.Service.PutModelSettings(r.Context(), tenant, document, expected)
	if err != nil {
		return err
	}
	writeModels(w, s)
	return nil
}

func writeModels(w http.ResponseWriter, s domain.ModelSettings) {
	w.Header().Set("ETag", etag(s.Revision))
	writeJSON(w, http.StatusOK, toModelSettings(s))
}

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// ifMatch returns the revision that an If-Match header expects. A tag may have been weakened on the way.
func ifMatch(header string) (int64, error) {
	if header == "" || header == "*" {
		return ports.AnyRevision, nil
	}
	tag := strings.TrimPrefix(header, "W/")
	revision, err := strconv.ParseInt(strings.Trim(tag, `"`), 10, 64)
	if err != nil || revision < 0 || tag != etag(revision) {
		return 0, domain.ErrInvalidRequest.At("If-Match").With("must be one ETag of this resource")
	}
	return revision, nil
}
