// Package httpapi serves AgentAPI (protocol.md §10) over HTTP: routes, JSON shapes, problem+json, authentication and
// the guards around them. It decides nothing about sessions: a handler reads the request, asks Service and writes the
// answer.
//
// gorilla/mux appears in router.go alone. The middleware stands around the router, so that it also sees what no route
// matches.
package httpapi
