package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/tmaxmax/go-sse"
)

type chatCmd struct {
	clientFlags

	Session string   `arg:"" optional:"" help:"Session id; without one a new session is made."`
	Create  bool     `help:"Make the session when it does not exist."`
	Model   string   `help:"Model of a new session; in one that exists, for what you type." placeholder:"NAME"`
	Tools   []string `help:"Tools of a new session; in one that exists, for what you type." placeholder:"NAME"`
}

// Run talks until /quit or an interrupt. At the end of its input it stays until the session is at rest, and fails when
// something that was said is unanswered then.
func (c *chatCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.talk(ctx, os.Stdin, newScreen(os.Stdout, os.Stderr))
}

// chat is one conversation. Its fields belong to its loop; whatever waits for input or for the network is a goroutine of
// its own that sends to the loop.
type chat struct {
	clientFlags

	session   string
	selection map[string]any // of what is said
	screen    *screen
	mailer    *mailer
	waits     int             // jobs that are not done
	sent      map[string]bool // by the requestId of each input that has no reply yet: whether the stream has shown it

	said     []int64        // the seqs of what was said here
	answered map[int64]bool // by seq
	refused  bool           // something that was said here was refused
	ended    bool           // no more input will come
	quit     bool           // by /quit
	asking   bool           // whether the session is at rest

	frames chan sse.Event
	lines  chan string // what is typed; closed at the end of input, nil when it is read no more
	notes  chan string
	rest   chan sessionState
	gone   chan error // the stream is over
}

// sessionState is what a chat wants to know of a session.
type sessionState struct {
	HeadSeq   int64 `json:"headSeq"`
	ActiveRun *struct {
		ID string `json:"id"`
	} `json:"activeRun"`
}

func (c *chatCmd) talk(ctx context.Context, in io.Reader, out *screen) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ch := &chat{
		clientFlags: c.clientFlags, session: c.Session, screen: out, mailer: newMailer(), answered: map[int64]bool{}, sent: map[string]bool{},
		frames: make(chan sse.Event), lines: make(chan string), notes: make(chan string), rest: make(chan sessionState),
		gone: make(chan error, 1),
	}
	if err := c.join(ctx, ch); err != nil {
		return err
	}
	f := follower{
		clientFlags: c.clientFlags, session: ch.session, partials: out.live(),
		frame: func(e sse.Event) error { return send(ctx, ch.frames, e) },
		broken: func(err error, wait time.Duration) {
			_ = send(ctx, ch.notes, fmt.Sprintf("%v; trying again in %s", err, wait))
		},
	}
	go func() { ch.gone <- f.follow(ctx) }()
	go ch.mailer.run(ctx, ch.notes)
	go read(ctx, in, ch.lines)
	return ch.loop(ctx)
}

// join finds the session or makes it.
func (c *chatCmd) join(ctx context.Context, ch *chat) error {
	body := map[string]any{}
	if c.Model != "" {
		body["model"] = c.Model
	}
	if len(c.Tools) > 0 {
		body["tools"] = c.Tools
	}
	var state sessionState
	if c.Session != "" {
		err := c.call(ctx, http.MethodGet, nil, &state, c.Session)
		switch {
		case err == nil:
			if len(body) > 0 {
				ch.selection = body
			}
			ch.screen.note(fmt.Sprintf("session %s, %d events; /help lists the commands", ch.session, state.HeadSeq))
			return nil
		case missing(err) && !c.Create:
			return fmt.Errorf("there is no session %q; --create makes it", c.Session)
		case !missing(err):
			return err
		}
	} else {
		ch.session = newID()
	}
	body["id"] = ch.session
	if err := c.call(ctx, http.MethodPost, body, &state); err != nil {
		return err
	}
	ch.screen.note(fmt.Sprintf("session %s, new; /help lists the commands", ch.session))
	return nil
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// read sends the lines of in and closes to at their end.
func read(ctx context.Context, in io.Reader, to chan<- string) {
	defer close(to)
	for r := bufio.NewReader(in); ; {
		line, err := r.ReadString('\n')
		if line != "" && send(ctx, to, strings.TrimRight(line, "\r\n")) != nil || err != nil {
			return
		}
	}
}

// send sends v unless ctx ends first.
func send[T any](ctx context.Context, to chan<- T, v T) error {
	select {
	case to <- v:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lookEvery is how often a chat looks whether the session is at rest, besides after each run.finished.
const lookEvery = 2 * time.Second

func (c *chat) loop(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		over := false
		select {
		case <-ctx.Done():
			return c.leave(true)
		case err := <-c.gone:
			if err == nil {
				return c.leave(true)
			}
			c.screen.end()
			return err
		case e := <-c.frames:
			over = c.show(e)
		case text := <-c.notes:
			c.screen.note(text)
		case done := <-c.mailer.done:
			c.waits--
			done()
			over = true
		case line, open := <-c.lines:
			if open {
				c.screen.typed(line)
				c.typed(line)
			} else {
				c.ended, c.lines = true, nil
			}
			over = c.ended
		case <-look.C:
			over = true
		case state := <-c.rest:
			if c.asking = false; state.ActiveRun == nil && c.waits == 0 && c.screen.seq >= state.HeadSeq {
				return c.leave(false)
			}
		}
		if over && c.ended && c.waits == 0 {
			if c.quit {
				return c.leave(false)
			}
			c.ask(ctx)
		}
	}
}

// leave returns what the command ends with.
func (c *chat) leave(interrupted bool) error {
	c.screen.end()
	unanswered := 0
	for _, seq := range c.said {
		if !c.answered[seq] {
			unanswered++
		}
	}
	unknown := c.waits
	for _, shown := range c.sent {
		if shown {
			unknown--
		}
	}
	switch {
	case unknown > 0:
		return fmt.Errorf("interrupted; nobody knows whether the server has the last %d of what was said", unknown)
	case c.refused && !interrupted:
		return exitWith{code: 1}
	case c.quit, interrupted, unanswered == 0:
		return nil
	}
	return fmt.Errorf("%d of what was said is unanswered", unanswered)
}

// ask asks whether the session is at rest.
func (c *chat) ask(ctx context.Context) {
	if c.asking {
		return
	}
	c.asking = true
	go func() {
		var state sessionState
		for c.call(ctx, http.MethodGet, nil, &state, c.session) != nil { // the stream says what is wrong
			if !pause(ctx, firstPause) {
				return
			}
		}
		_ = send(ctx, c.rest, state)
	}()
}

// show shows a frame and reports whether a run has finished.
func (c *chat) show(frame sse.Event) bool {
	if frame.Type == "partial" {
		c.screen.partial(frame.Data)
		return false
	}
	e, err := parseEvent(frame.Data)
	if err != nil {
		c.screen.note(fmt.Sprintf("not understood: %v", err))
		return false
	}
	for _, seq := range e.answers() {
		c.answered[seq] = true
	}
	if id := e.requestID(); c.hasSent(id) {
		c.sent[id] = true
	}
	c.screen.event(e)
	return e.Kind == "run.finished"
}

func (c *chat) hasSent(id string) bool {
	_, ok := c.sent[id]
	return ok
}
