package apitest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"
)

// schema is the OpenAPI document that a server hands out.
type schema struct {
	router routers.Router
}

func loadSchema(t *testing.T, url string) *schema {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/openapi.json", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+ours)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	doc.Servers = nil // the router would demand the host that they name
	router, err := legacy.NewRouter(doc)
	require.NoError(t, err)
	return &schema{router: router}
}

// check fails the test when an answer, or a request that the server took, is not as the document says. Paths that are
// not in the document are left alone.
func (s *schema) check(t *testing.T, req *http.Request, a answer) {
	t.Helper()
	method := req.Method
	if method == http.MethodHead {
		return
	}
	route, params, err := s.router.FindRoute(req)
	if err != nil {
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusOK}, a.status, "%s %s", method, req.URL)
		return
	}
	options := &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true,
	}
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options}
	if a.status < http.StatusBadRequest {
		require.NoError(t, openapi3filter.ValidateRequest(context.WithoutCancel(t.Context()), in), "%s %s", method, req.URL)
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header, Options: options,
		Body: io.NopCloser(strings.NewReader(a.raw)),
	}
	require.NoError(t, openapi3filter.ValidateResponse(context.WithoutCancel(t.Context()), out), "%s %s: %s", method, req.URL, a.raw)
}
