package sse

import (
	"fmt"
	"net/http"
	"time"
)

// chunk is how much is written under one deadline, so that a slow client that still reads is never cut.
const chunk = 32 << 10

// writer writes to one client. Each write and flush has its own deadline; none is left behind, since an idle stream
// lives for ever.
type writer struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	buf     []byte // frames not yet written
	last    time.Time
}

// check returns an error when w, or a wrapper around it, has no deadlines: such a stream could hang for ever. Streams
// have no read deadline, whatever the server's is.
func (w *writer) check() error {
	if err := w.rc.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("response writer without deadlines: %w", err)
	}
	return nil
}

// begin sends the headers.
func (w *writer) begin() error {
	h := w.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.w.WriteHeader(http.StatusOK)
	return w.send(nil)
}

// add puts a frame in line; full lines are written.
func (w *writer) add(frame []byte) error {
	if len(w.buf) > 0 && len(w.buf)+len(frame) > chunk {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(frame) >= chunk {
		return w.send(frame)
	}
	w.buf = append(w.buf, frame...)
	return nil
}

// flush writes what is in line.
func (w *writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	err := w.send(w.buf)
	if cap(w.buf) > 4<<10 {
		w.buf = nil // an idle stream keeps little
	}
	w.buf = w.buf[:0]
	return err
}

// send writes b and flushes, piece by piece.
func (w *writer) send(b []byte) error {
	for first := true; first || len(b) > 0; first = false {
		n := min(len(b), chunk)
		if err := w.rc.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
			return err
		}
		if _, err := w.w.Write(b[:n]); err != nil {
			return err
		}
		if err := w.rc.Flush(); err != nil {
			return err
		}
		b = b[n:]
	}
	w.last = time.Now()
	return w.rc.SetWriteDeadline(time.Time{})
}
