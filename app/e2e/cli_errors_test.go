package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// clients are the commands that talk to a server.
var clients = [][]string{{"events", "tail", "s1"}, {"chat", "s1"}, {"chat"}}

// clientsEnd wants each client to end with code at once and to say want.
func clientsEnd(t *testing.T, code int, want string, flags ...string) {
	t.Helper()
	for _, c := range clients {
		got, out, errs := command(t, append(c, flags...)...)
		require.Equal(t, code, got, "%v %v: %s%s", c, flags, out, errs)
		require.Contains(t, errs, want, "%v %v", c, flags)
		require.NotContains(t, errs, "trying again")
		require.Empty(t, out)
	}
}

func TestServersThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, server := range []string{
		"ftp://x", "localhost:8420", "", "http://", "http://x:99999", "http://x:y", "http://[::1", "http://x?y=1", "http://x/#y", "://",
	} {
		clientsEnd(t, 2, "--server", "--server="+server)
	}
	clientsEnd(t, 1, "--token", "--token=a\nb")
}

// What a retry cannot mend ends a client at once.
func TestAnswersThatEndAClient(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]http.HandlerFunc{
		"--token":                  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"403 Forbidden: a long no": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "a long no", http.StatusForbidden) },
		"404 Not Found":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"https://elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere"+r.URL.Path, http.StatusMovedPermanently)
		},
		"no answer of a keel server": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>welcome")) },
	} {
		s := httptest.NewServer(answer)
		defer s.Close()
		for _, c := range clients {
			code, out, errs := command(t, append(c, "--server", s.URL)...)
			require.Equal(t, 1, code, "%v: %s%s", c, out, errs)
			require.Contains(t, errs, want, "%v", c)
			require.NotContains(t, errs, "trying again", "%v", c)
		}
	}
}

func TestCertificatesThatNobodyTrusts(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	clientsEnd(t, 1, "certificate", "--server", s.URL)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	clientsEnd(t, 1, "HTTP response to HTTPS client", "--server", strings.Replace(plain.URL, "http:", "https:", 1))
}

// What a retry may mend is tried again, and said: an overloaded server, a broken one, none.
func TestTailTriesAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusGone)
		}
	}))
	defer s.Close()
	code, out, errs := command(t, "events", "tail", "s1", "--server", s.URL)
	require.Equal(t, 1, code, out)
	require.Regexp(t, `(?s)^keel: 503 .*; trying again in 1s\nkeel: 429 .*; trying again in 2s\nkeel: the server refused: 410 Gone`, errs)
}

// Each command has help, and a wrong command line names what is wrong and where the help is.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	for _, c := range []string{
		"", "serve", "chat", "events", "events tail", "migrate", "migrate up", "migrate status", "verify", "secrets", "secrets rotate", "graph",
		"version",
	} {
		code, out, errs := command(t, append(strings.Fields(c), "--help")...)
		require.Equal(t, 0, code, "%s: %s", c, errs)
		require.Contains(t, out, "Usage: "+strings.TrimSpace("keel "+c))
	}
	for line, want := range map[string]string{
		"":                        "expected one of",
		"evnts":                   `did you mean "events"`,
		"events":                  `expected "tail"` + "\n(see: keel events --help)",
		"events tail":             `expected "<session>"` + "\n(see: keel events tail --help)",
		"events tail s --aftr 3":  `unknown flag --aftr, did you mean "--after"?` + "\n(see: keel events tail --help)",
		"events tail s --after x": "--after: expected a valid 64 bit int",
		"chat a b":                "unexpected argument b\n(see: keel chat --help)",
		"chat --creat":            `did you mean "--create"`,
		"serve --prot 1":          "unknown flag --prot\n(see: keel serve --help)",
		"serve --workers many":    "--workers: expected",
		"serve --lease-ttl 15":    "--lease-ttl: expected duration",
		"secrets":                 `expected "rotate"` + "\n(see: keel secrets --help)",
		"verify x":                "unexpected argument x\n(see: keel verify --help)",
	} {
		code, out, errs := command(t, strings.Fields(line)...)
		require.Equal(t, 2, code, "%s: %s", line, errs)
		require.Contains(t, errs, want, line)
		require.Contains(t, errs, "--help)")
		require.Empty(t, out)
	}
}
