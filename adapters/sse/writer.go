package sse

import (
	"fmt"
	"net/http"
	"time"
)

// chunk is how much is written under one deadline. A client that takes it within the timeout, at 3.2 KiB/s with 10 s, is
// not cut; nor one that is slower, where connections count the time in which nothing is acknowledged (httpapi.Patient).
const chunk = 32 << 10

// writer writes to one client. Each piece has a deadline. On HTTP/1 one that passes between two pieces harms nothing, so it
// stands, and is not set again at once, until the stream ends; HTTP/2 resets a stream whose deadline passes, and an idle
// stream lives for ever.
type writer struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	resets  bool      // a deadline that passes resets the stream
	set     time.Time // when the deadline was set
	only    []byte    // the first frame not yet written, shared with other streams
	buf     []byte    // frames not yet written when there are more
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

// add puts a frame, which nobody changes any more, in line; full lines are written.
func (w *writer) add(frame []byte) error {
	if w.waits() > 0 && w.waits()+len(frame) > chunk {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.waits() == 0 {
		w.only = frame
		return nil
	}
	w.buf = append(append(w.buf, w.only...), frame...)
	w.only = nil
	return nil
}

// waits is how many bytes are in line.
func (w *writer) waits() int { return len(w.only) + len(w.buf) }

// flush writes what is in line.
func (w *writer) flush() error {
	if w.waits() == 0 {
		return nil
	}
	line := w.only
	if line == nil {
		line = w.buf
	}
	err := w.send(line)
	if cap(w.buf) > 4<<10 {
		w.buf = nil // an idle stream keeps little
	}
	w.only, w.buf = nil, w.buf[:0]
	return err
}

// send writes b and flushes, piece by piece.
func (w *writer) send(b []byte) error {
	for first := true; first || len(b) > 0; first = false {
		n := min(len(b), chunk)
		if err := w.deadline(time.Now()); err != nil {
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
	if w.resets {
		return w.noDeadline()
	}
	return nil
}

// deadline gives a piece at least nine tenths of the timeout.
func (w *writer) deadline(now time.Time) error {
	if !w.resets && now.Sub(w.set) < w.timeout/10 {
		return nil
	}
	w.set = now
	return w.rc.SetWriteDeadline(now.Add(w.timeout))
}

// noDeadline takes the deadline of the last piece away: what follows the stream has none of it.
func (w *writer) noDeadline() error { return w.rc.SetWriteDeadline(time.Time{}) }
