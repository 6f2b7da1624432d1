package httpapi

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// patience is how long the peer of a connection without a write deadline may acknowledge nothing of what was written. A
// stream writes at least every 15 s, so a client that is gone without a word is noticed within two of its comments.
const patience = 15 * time.Second

// looks is how often progress is looked for, within the time that a peer may make none.
const looks = 5

// Patient returns a listener whose connections go by progress: a write lasts as long as the peer acknowledges something
// now and then, however slowly, and fails with os.ErrDeadlineExceeded once the peer has acknowledged nothing for as long
// as the write deadline was away when it was set, or two fifths longer; without a deadline for 15 s. The same befalls a
// write that finds something unacknowledged for so long, whether or not there is room for more. What the peer has not
// got by then is dropped when the connection is closed, which resets it.
//
// So a client that reads is not cut, however slowly, if its system acknowledges a byte within that time. A system whose
// receive buffer is full acknowledges again when there is room, at the latest when all of it has been read: the rate
// that is safe is one receive buffer per limit. With 10 s that is 13 KB/s for the 128 KiB that Linux begins with, and
// 1.6 KB/s for a buffer that was set to 8 KiB (Linux doubles it). A fixed deadline would demand a part of what the send
// buffer holds, which is megabytes, and TCP_USER_TIMEOUT ends connections whose window stays smaller than the segment
// that is next, though their client reads all the time.
//
// Linux tells what was acknowledged. Elsewhere what the system takes over counts instead.
func Patient(l net.Listener) net.Listener { return patientListener{l} }

type patientListener struct{ net.Listener }

func (l patientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newPatientConn(c, unacknowledged(c)), nil
}

// patientConn is written to, and given deadlines, by one goroutine at a time, as net/http does.
type patientConn struct {
	net.Conn
	waiting func() int // how many bytes the system has taken over that the peer has not acknowledged

	limit   time.Duration // without progress
	alarm   time.Time     // the deadline of Conn, for the next look
	written int64
	acked   int64     // of those, at the last look
	since   time.Time // when a look found progress, or a write nothing to wait for
}

func newPatientConn(c net.Conn, waiting func() int) *patientConn {
	return &patientConn{Conn: c, waiting: waiting, limit: patience}
}

// SetWriteDeadline sets how long from now on the peer may acknowledge nothing; the zero time means the default.
func (c *patientConn) SetWriteDeadline(t time.Time) error {
	c.limit = patience
	if !t.IsZero() {
		c.limit = time.Until(t)
	}
	return nil
}

func (c *patientConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *patientConn) Write(b []byte) (n int, err error) {
	now := time.Now()
	if c.look(now); c.acked == c.written {
		c.since = now
	}
	for !c.tired(now) {
		if err := c.setAlarm(now); err != nil {
			return n, err
		}
		more, err := c.Conn.Write(b[n:])
		n, c.written = n+more, c.written+int64(more)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		now = time.Now()
		c.look(now)
	}
	return n, c.giveUp()
}

// tired reports whether the peer has made no progress for too long.
func (c *patientConn) tired(now time.Time) bool { return now.Sub(c.since) >= c.limit }

// look finds out what the peer has acknowledged.
func (c *patientConn) look(now time.Time) {
	if acked := c.written - int64(c.waiting()); acked > c.acked {
		c.acked, c.since = acked, now
	}
}

// setAlarm has Conn return in time for the next look. An alarm that is far enough away stands.
func (c *patientConn) setAlarm(now time.Time) error {
	if left := c.alarm.Sub(now); left > c.limit/looks/2 && left <= c.limit {
		return nil
	}
	c.alarm = now.Add(c.limit / looks)
	return c.Conn.SetWriteDeadline(c.alarm)
}

// giveUp has the connection reset when it is closed, so that nothing of it stays in the system.
func (c *patientConn) giveUp() error {
	if tcp, ok := c.Conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	return fmt.Errorf("the peer has acknowledged nothing for %s: %w", c.limit, os.ErrDeadlineExceeded)
}

// CloseWrite implements what net/http looks for.
func (c *patientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
