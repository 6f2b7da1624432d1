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

// router finds the handler of a request. It never redirects: a path matches a route as it was sent, or not at all.
// Segments are told apart before they are unescaped, so that an escaped slash is part of a name.
type router struct {
	mux      *mux.Router
	notFound http.HandlerFunc
}

func newRouter(routes []route, notFound http.HandlerFunc) router {
	m := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for _, r := range routes {
		m.Handle(r.path, r.methods)
	}
	return router{m, notFound}
}

// find returns the handler of r and hands the variables of its path over to the standard library. It is not called
// around a handler, so that what the router needs is not kept for as long as a stream lives.
func (t router) find(r *http.Request) http.HandlerFunc {
	var match mux.RouteMatch
	if !t.mux.Match(r, &match) {
		return t.notFound
	}
	for name, raw := range match.Vars {
		value, err := url.PathUnescape(raw)
		if err != nil {
			value = raw
		}
		r.SetPathValue(name, value)
	}
	return match.Handler.(methods).of(r.Method)
}

// of returns the handler of a method: HEAD is served as GET, other methods than the route's are 405.
func (m methods) of(method string) http.HandlerFunc {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h, ok := m[method]; ok {
		return h
	}
	return m.ServeHTTP
}

// ServeHTTP refuses the method of r.
func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
