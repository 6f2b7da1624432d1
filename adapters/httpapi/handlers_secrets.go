package httpapi

import (
	"errors"
	"net/http"

	"github.com/keel-agent/keel/domain"
)

// secretJSON is all that anyone is told of a secret.
type secretJSON struct {
	Name      string `json:"name"`
	KeyID     string `json:"keyId"`
	CreatedAt string `json:"createdAt"`
	UpdatedAt string `json:"updatedAt"`
}

func (a *api) listSecrets(w http.ResponseWriter, r *http.Request, tenant string) error {
	n, err := pageQuery(r)
	if err != nil {
		return err
	}
	secrets, next, err := a.Service.ListSecrets(r.Context(), tenant, r.URL.Query().Get("cursor"), n)
	if err != nil {
		return err
	}
	list := listJSON[secretJSON]{Items: make([]secretJSON, 0, len(secrets)), NextCursor: next}
	for _, s := range secrets {
		list.Items = append(list.Items, secretJSON{s.Name, s.KeyID, wireTime(s.CreatedAt), wireTime(s.UpdatedAt)})
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

func (a *api) putSecret(w http.ResponseWriter, r *http.Request, tenant string) error {
	request, err := a.readObject(w, r)
	if errors.Is(err, domain.ErrInvalidJSON) {
		return domain.ErrInvalidJSON // no more: the details quote the body
	}
	if err != nil {
		return err
	}
	created, err := a.Service.PutSecret(r.Context(), tenant, r.PathValue("name"), request)
	if err != nil {
		return err
	}
	status := http.StatusNoContent
	if created {
		status = http.StatusCreated
	}
	w.WriteHeader(status)
	return nil
}

func (a *api) deleteSecret(w http.ResponseWriter, r *http.Request, tenant string) error {
	if _, err := a.readOptional(w, r); err != nil {
		return err
	}
	if err := a.Service.DeleteSecret(r.Context(), tenant, r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
