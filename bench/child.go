package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/app"
)

// childCommand is the first argument of a process that this program starts as a server for its streams: the server's
// memory must be told apart from that of its clients.
const childCommand = "child"

// child is such a process. Its standard input asks for its memory, and ends it.
type child struct {
	url string // http://host:port
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startChild starts a server with further arguments of runChild.
func (b *bench) startChild(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if b.profile != "" && len(args) > 0 {
		args = append(args, "-cpuprofile", b.profile+".server")
	}
	c := &child{cmd: keelCommand(ctx, self, append([]string{childCommand}, args...)...)}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	for c.url == "" {
		line, err := c.out.ReadString('\n')
		if err != nil {
			c.stop()
			return nil, fmt.Errorf("the server did not start: %w", err)
		}
		if found := readyAt.FindStringSubmatch(line); found != nil {
			c.url = found[1]
		}
	}
	return c, nil
}

// address is the host and port of the server.
func (c *child) address() string { return strings.TrimPrefix(c.url, "http://") }

// memory returns the bytes of the server's heap and stacks that are in use after a collection.
func (c *child) memory() (bytes uint64, err error) {
	if _, err := io.WriteString(c.in, "memory\n"); err != nil {
		return 0, err
	}
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if n, _ := fmt.Sscanf(line, memoryLine, &bytes); n == 1 {
			return bytes, nil
		}
	}
}

const memoryLine = "memory: %d\n"

// stop ends the server at once. Its connections are closed when it returns.
func (c *child) stop() {
	_ = c.in.Close()
	_, _ = io.Copy(io.Discard, c.out)
	_ = c.cmd.Wait()
}

// runChild serves until standard input ends.
func runChild(args []string) error {
	flags := flag.NewFlagSet(childCommand, flag.ExitOnError)
	store := flags.String("store", "", "serve Keel on this store; without it, only what net/http does for a stream")
	conns := flags.Int("conns", 0, "connections of the store")
	profile := flags.String("cpuprofile", "", "write a CPU profile to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *profile != "" {
		done, err := profileTo(*profile)
		if err != nil {
			return err
		}
		defer done()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if *store == "" {
		if err := serveFloor(ctx); err != nil {
			return err
		}
	} else {
		keel := app.New(app.Config{Listen: "127.0.0.1:0", Store: *store, Provider: "fake", Auth: "off", MaxConns: *conns}, zap.NewNop())
		if err := keel.Start(ctx); err != nil {
			return err
		}
	}
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		for range 4 { // a collection halves a stack at most
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Printf(memoryLine, m.HeapInuse+m.StackInuse)
	}
	return nil
}

// floor is the least that a server of streams on net/http can do: every stream waits for bytes, and POST /say hands the
// same ones to all.
type floor struct {
	mu      sync.Mutex
	streams map[chan []byte]struct{}
}

// serveFloor listens, tells where, and goes on in the background.
func serveFloor(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f := &floor{streams: map[chan []byte]struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", f.stream)
	mux.HandleFunc("POST /say", f.say)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}()
	fmt.Printf("ready at http://%s\n", l.Addr())
	return nil
}

func (f *floor) stream(w http.ResponseWriter, r *http.Request) {
	said := make(chan []byte, 16)
	f.mu.Lock()
	f.streams[said] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.streams, said)
		f.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	for rc.Flush() == nil {
		select {
		case <-r.Context().Done():
			return
		case b := <-said:
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	}
}

func (f *floor) say(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for to := range f.streams {
		select {
		case to <- b:
		default:
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
