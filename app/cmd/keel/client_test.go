package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// answering is a server that gives one answer to whatever it is asked.
func answering(t *testing.T, status int, body string) clientFlags {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return clientFlags{Server: s.URL, Token: "t"}
}

func TestMissingSessionIsNamed(t *testing.T) {
	keel := answering(t, http.StatusNotFound, `{"code":"not_found","detail":"there is no such resource"}`)
	tail := follower{clientFlags: keel, session: "nosuch"}
	err := tail.follow(t.Context())
	require.EqualError(t, err, `there is no session "nosuch"`)
	chat := chatCmd{clientFlags: keel, Session: "nosuch"}
	require.EqualError(t, chat.join(t.Context(), nil), `there is no session "nosuch"; --create makes it`)

	stranger := answering(t, http.StatusNotFound, "404 page not found\n")
	chat.clientFlags, tail.clientFlags = stranger, stranger
	for _, err := range []error{chat.join(t.Context(), nil), tail.follow(t.Context())} {
		require.ErrorIs(t, err, errRefused)
		require.EqualError(t, err, "the server refused: 404 Not Found: 404 page not found; does --server name a keel server?")
	}
}

func TestProblemNamesItsField(t *testing.T) {
	keel := answering(t, http.StatusBadRequest, `{"code":"invalid_request","field":"id","detail":"must be one"}`)
	chat := chatCmd{clientFlags: keel, Session: "a b"}
	require.EqualError(t, chat.join(t.Context(), nil), "the server refused: invalid_request (id): must be one")
}

func TestServerWithoutScheme(t *testing.T) {
	require.EqualError(t, clientFlags{Server: "127.0.0.1:8436"}.Validate(), `--server "127.0.0.1:8436": want http://HOST:PORT or https://HOST`)
}
