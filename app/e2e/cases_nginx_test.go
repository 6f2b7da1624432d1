//go:build nginx

package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/openai/openaitest"
)

// nginxRead is the proxy_read_timeout: below the default of 60 s, above the 15 s between two comments.
const nginxRead = 20 * time.Second

// behindNginx returns p as it is reached through nginx, everything else being nginx's default.
func behindNginx(t *testing.T, p *process) *process {
	t.Helper()
	u, err := user.Current()
	require.NoError(t, err)
	dir, port := t.TempDir(), freePort(t)
	config := filepath.Join(dir, "nginx.conf")
	var temps strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temps, "%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	text := fmt.Sprintf("daemon off; user %s; pid %s/pid; error_log stderr warn; events {}\n"+
		"http { access_log off;\n%sserver { listen 127.0.0.1:%d; location / { proxy_pass %s; proxy_read_timeout %ds; } } }\n",
		u.Username, dir, temps.String(), port, p.url, int(nginxRead.Seconds()))
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	front(t, "nginx", nil, port, "-p", dir, "-c", config, "-e", "stderr")
	behind := *p
	behind.url = fmt.Sprint("http://127.0.0.1:", port)
	return &behind
}

// lines opens a stream behind a cursor and sends its lines, without the blank ones.
func lines(t *testing.T, p *process, session, cursor string) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/sessions/"+session+"/events/stream?partials=1", nil)
	require.NoError(t, err)
	req.Header.Set("Last-Event-ID", cursor)
	client := http.Client{Transport: &http.Transport{ResponseHeaderTimeout: 10 * time.Second}}
	res, err := client.Do(req) //nolint:bodyclose // by the goroutine below
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	all := make(chan string, 1000)
	go func() {
		defer close(all)
		defer func() { _ = res.Body.Close() }()
		for s := bufio.NewScanner(res.Body); s.Scan(); {
			if s.Text() != "" {
				all <- s.Text()
			}
		}
	}()
	return all
}

// next waits for a line that begins with prefix and has text in it.
func next(t *testing.T, from <-chan string, prefix, text string) {
	t.Helper()
	for limit := time.After(nginxRead + 5*time.Second); ; {
		select {
		case l, open := <-from:
			require.True(t, open, "the stream ended before %s%s", prefix, text)
			if strings.HasPrefix(l, prefix) && strings.Contains(l, text) {
				return
			}
		case <-limit:
			t.Fatalf("%s%s did not come", prefix, text)
		}
	}
}

// K19, 4: nginx with its default buffering passes each frame on at once, an idle stream outlives its read
// timeout by the comments, and a client resumes by Last-Event-ID.
func TestK19BehindNginx(t *testing.T) {
	b, direct := backend(t, "memory:")
	p := behindNginx(t, direct)
	gate := make(chan struct{})
	slow := openaitest.Stream(openaitest.Text("First piece."), openaitest.Text(" Second."), openaitest.Finish("stop"))
	slow.Steps[1].Until = gate
	b.Push(slow, answered("Still here."))
	p.create(`{"id":"s1"}`)
	frames := lines(t, p, "s1", "0")
	p.input("s1", `{"text":"go","requestId":"r1"}`)
	next(t, frames, "id: ", "1")
	next(t, frames, "data: ", "First piece.") // the backend holds back all that follows
	close(gate)
	next(t, frames, "data: ", "Second.")
	next(t, frames, "id: ", "3")

	for began := time.Now(); time.Since(began) < 2*nginxRead; {
		next(t, frames, ": keep-alive", "")
	}
	p.input("s1", `{"text":"there?","requestId":"r2"}`)
	next(t, frames, "id: ", "4")
	next(t, frames, "id: ", "6")

	again := lines(t, p, "s1", "4")
	for l := range again {
		if strings.HasPrefix(l, "id: ") {
			require.Equal(t, "id: 5", l)
			break
		}
	}
	next(t, again, "id: ", "6")
	p.stop()
	next(t, frames, "event: ", "drain")
}
