package app

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// succession is what there is of a successor when the process begins to drain.
type succession int

const (
	none    succession = iota // nobody accepts after this process
	waiting                   // somebody will, once the store is free
	serving                   // somebody does
)

// drainer holds the signals of an orderly end: ready is closed at once, streams after the attempts ended.
type drainer struct {
	ready   chan struct{}
	streams chan struct{}

	successor succession // set before ready is closed

	patience context.Context // ends when whoever asked for the end asks again
	hurry    context.CancelFunc
}

func newDrainer() *drainer {
	d := &drainer{ready: make(chan struct{}), streams: make(chan struct{})}
	d.patience, d.hurry = context.WithCancel(context.Background())
	return d
}

func (d *drainer) draining() bool {
	select {
	case <-d.ready:
		return true
	default:
		return false
	}
}

// hurryLimit is how long clients may take to read their last frames once there is no more patience.
const hurryLimit = time.Second

// patiently returns a context that ends with ctx, after limit, or the time late after patience has.
func (d *drainer) patiently(ctx context.Context, limit, late time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(d.patience, func() { time.AfterFunc(late, cancel) })
	return ctx, func() { stop(); cancel() }
}

// lastOnes asks clients, from when the process drains on, to make no more requests on their connections.
func (d *drainer) lastOnes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.draining() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// lingering is how long a drain waits at most, once the streams were told to end, for connections to be closed by an
// answer that says so, and then for requests on those that were accepted last. A connection that is closed while it is
// idle may cross with a request on its way, which its client cannot know to be safe to repeat.
const lingering = 500 * time.Millisecond

// openConns knows the connections of an http.Server.
type openConns struct {
	mu  sync.Mutex
	all map[net.Conn]http.ConnState
}

// note is the server's ConnState.
func (o *openConns) note(c net.Conn, state http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[net.Conn]http.ConnState{}
	}
	o.all[c] = state
	if state == http.StateClosed || state == http.StateHijacked {
		delete(o.all, c)
	}
}

func (o *openConns) any(states []http.ConnState) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.all {
		if slices.Contains(states, s) {
			return true
		}
	}
	return false
}

// none waits until no connection is in any of the states. It returns false when ctx ends before.
func (o *openConns) none(ctx context.Context, states ...http.ConnState) bool {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for o.any(states) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
