package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tmaxmax/go-sse"
)

type eventsCmd struct {
	Tail tailCmd `cmd:"" help:"Print a session's events as JSON lines, and go on as new ones are committed."`
}

type tailCmd struct {
	clientFlags

	Session  string `arg:"" help:"Session id."`
	After    int64  `help:"Print events after this seq." default:"0" placeholder:"N"`
	Partials bool   `help:"Print token-level frames too, as lines with a member partial."`
	Once     bool   `help:"Leave when the stream ends instead of connecting again."`
}

// Run prints events until interrupted. A broken stream is taken up again after the last event printed.
func (t *tailCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := bufio.NewWriter(os.Stdout)
	f := follower{
		clientFlags: t.clientFlags, session: t.Session, after: t.After, partials: t.Partials, once: t.Once,
		frame: func(e sse.Event) error {
			line := e.Data
			if e.Type == "partial" {
				line = `{"partial":` + line + `}`
			}
			if _, err := out.WriteString(line + "\n"); err != nil {
				return err
			}
			return out.Flush()
		},
		broken: func(err error, wait time.Duration) {
			fmt.Fprintf(os.Stderr, "keel: %v; trying again in %s\n", err, wait)
		},
	}
	return f.follow(ctx)
}
