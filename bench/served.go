package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// servedRuns plays whole runs through a `keel serve`, whose tool is an HTTP endpoint of this process.
type servedRuns struct {
	*served
	resident resident
	tool     *http.Server
	called   atomic.Int64 // times the tool was called
	played   atomic.Int64 // runs
	clients  []servedClient
}

// eventsOfRun are the input, an answer with a call, its result, the last answer and the end.
const eventsOfRun = 5

// serveRuns starts a server with further flags, for at most so many clients. The caller closes it.
func (b *bench) serveRuns(ctx context.Context, keel string, clients int, flags ...string) (*servedRuns, error) {
	s := &servedRuns{clients: make([]servedClient, clients)}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.tool = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.tool.Serve(l) }()
	script, tools := filepath.Join(b.dir, newID()+".json"), filepath.Join(b.dir, newID()+".yaml")
	err = os.WriteFile(script, []byte(`[{"text":"`+stubText.Text+`","toolCalls":[{"name":"`+stubTool+`"}]},{"text":"`+stubText.Text+`"}]`), 0o600)
	if err == nil {
		const declared = "tools:\n  - {name: %s, description: a stub, url: 'http://%s/', allowPrivate: true}\n"
		err = os.WriteFile(tools, fmt.Appendf(nil, declared, stubTool, l.Addr()), 0o600)
	}
	if err == nil {
		s.served, err = serveKeel(ctx, keel, append(flags, "--script", script, "--http-tools", tools)...)
	}
	if err != nil {
		_ = s.tool.Close()
		return nil, err
	}
	s.resident.pid = s.cmd.Process.Pid
	return s, nil
}

// ServeHTTP is the tool.
func (s *servedRuns) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.called.Add(1)
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, stubText.Text)
}

func (s *servedRuns) close() {
	for _, c := range s.clients {
		c.close()
	}
	s.stop()
	_ = s.tool.Close()
}

// run plays a client's next run to its end.
func (s *servedRuns) run(ctx context.Context, client int) error {
	defer s.played.Add(1)
	return s.clients[client].run(ctx, strings.TrimPrefix(s.url, "http://"))
}

// side is n runs at a time.
func (s *servedRuns) side(store string, n int) side {
	return side{name: fmt.Sprintf("whole runs by `keel serve` on %s over HTTP, %d at once", store, n), round: s.resident.watched(driven(n, one(s.run)))}
}

// check says whether what was played was whole.
func (s *servedRuns) check() error {
	if called, played := s.called.Load(), s.played.Load(); called < played {
		return fmt.Errorf("%d runs called their tool %d times only", played, called)
	}
	return nil
}

// servedClient gives inputs to one session after the other, and follows its stream.
type servedClient struct {
	poster  *poster
	session string
	stream  streams
	ended   chan struct{} // gets one for each run of the session that ended
	runs    int
}

func (c *servedClient) run(ctx context.Context, addr string) error {
	if c.runs%sessionsOfClient == 0 { // a ledger has no more runs than those of the other sides
		if err := c.begin(ctx, addr); err != nil {
			return err
		}
	}
	c.runs++
	if _, err := c.poster.post("/v1/sessions/"+c.session+"/input", jsonType, inputPayload(newID()).String()); err != nil {
		return err
	}
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(30 * time.Second):
		return errStuck
	}
}

// begin makes a new session.
func (c *servedClient) begin(ctx context.Context, addr string) (err error) {
	if c.poster == nil {
		if c.poster, err = openPoster(ctx, addr); err != nil {
			return err
		}
	}
	c.stream.close()
	c.session = newID()
	if _, err := c.poster.post("/v1/sessions", jsonType, `{"id":"`+c.session+`","tools":["`+stubTool+`"]}`); err != nil {
		return err
	}
	if c.stream, err = openStreams(ctx, addr, 1, func(int) string { return streamPath(c.session, 0) }); err != nil {
		return err
	}
	ended := make(chan struct{}, sessionsOfClient)
	c.ended = ended
	go func(stream net.Conn) {
		_ = frameIDs(stream, func(id int64) {
			if id%eventsOfRun == 0 {
				ended <- struct{}{}
			}
		})
	}(c.stream[0])
	return nil
}

func (c *servedClient) close() {
	c.stream.close()
	if c.poster != nil {
		c.poster.close()
	}
}
