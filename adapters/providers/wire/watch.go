package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/keel-agent/keel/ports"
)

// DefaultIdle is how long a backend may be silent where nothing else is configured. Some models think for minutes
// without a word.
const DefaultIdle = 5 * time.Minute

// Watch ends a generation whose backend has gone silent. What counts as life is for the codec to say: comments and
// pings do not.
type Watch struct {
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

var errSilent = errors.New("the backend was silent for too long")

// NewWatch returns a watch and the context that it ends after limit (0 means DefaultIdle) without a call of Alive.
// Stop must be called.
func NewWatch(parent context.Context, limit time.Duration) (context.Context, *Watch) {
	if limit <= 0 {
		limit = DefaultIdle
	}
	ctx, cancel := context.WithCancelCause(parent)
	w := &Watch{parent: parent, ctx: ctx, cancel: cancel, limit: limit}
	w.timer = time.AfterFunc(limit, func() { cancel(errSilent) })
	return ctx, w
}

// Alive starts the silence anew.
func (w *Watch) Alive() { w.timer.Reset(w.limit) }

// Last gives the backend d, at most the limit, for what it may still send. Alive takes that back.
func (w *Watch) Last(d time.Duration) { w.timer.Reset(min(d, w.limit)) }

// Stop releases the watch and ends its context.
func (w *Watch) Stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// Fault returns the error of a generation whose request or read failed with err: the cause of the caller's context if
// that ended, else a retryable fault that tells silence from a broken connection. The address is left out of it, since
// it may hold credentials.
func (w *Watch) Fault(err error) error {
	if w.parent.Err() != nil {
		return context.Cause(w.parent)
	}
	if errors.Is(context.Cause(w.ctx), errSilent) {
		return &ports.ProviderError{
			Class: ports.Retryable, Code: "idle", Message: fmt.Sprintf("no output for %v", w.limit), Err: errSilent,
		}
	}
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		err = ue.Err
	}
	return &ports.ProviderError{Class: ports.Retryable, Code: "connection", Message: err.Error(), Err: err}
}

// StrayFault returns the error that a backend wrote in place of an event, nil when stray holds none.
func StrayFault(stray []byte) *ports.ProviderError {
	first, _, _ := bytes.Cut(stray, []byte("\n"))
	for _, body := range [][]byte{stray, first} {
		if f, ok := ReadFault(body); ok {
			return f.Error()
		}
	}
	return nil
}

// Cut returns the fault of a stream that ended without its end marker and left stray bytes beside its events.
func Cut(stray []byte) *ports.ProviderError {
	e := &ports.ProviderError{Class: ports.Retryable, Code: "cut", Message: "the stream ended before the answer was complete"}
	if f := looseFault(stray); f.Message != "" {
		e.Message += ": " + clip(Clean(f.Message), maxMessage)
	}
	return e
}
