package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"
)

// route is one path and what it does for each method. In a path, {name} stands for one segment, which the handler
// finds unescaped in r.PathValue(name).
type route struct {
	path    string
	methods methods
}

type methods map[string]http.HandlerFunc

// newRouter returns a handler that never redirects: a path matches a route as it was sent, or not at all. Segments are
// told apart before they are unescaped, so that an escaped slash is part of a name.
func newRouter(routes []route, notFound http.HandlerFunc) http.Handler {
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for _, r := range routes {
		router.Handle(r.path, pathValues(r.methods))
	}
	router.NotFoundHandler = notFound
	return router
}

// pathValues hands the router's variables over to the standard library.
func pathValues(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, raw := range mux.Vars(r) {
			value, err := url.PathUnescape(raw)
			if err != nil {
				value = raw
			}
			r.SetPathValue(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP serves HEAD as GET; other methods than the route's are 405.
func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h, ok := m[method]; ok {
		h(w, r)
		return
	}
	w.Header().Set("Allow", m.allow())
	writeProblem(w, problem{Code: codeMethodNotAllowed, Detail: "this resource does not have the method " + r.Method})
}

func (m methods) allow() string {
	var names []string
	for name := range m {
		names = append(names, name)
		if name == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
