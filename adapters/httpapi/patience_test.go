package httpapi

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// queue is a connection that takes all at once, as the system's buffers do, and tells what of it was not acknowledged.
type queue struct {
	net.Conn
	waiting int
	linger  []int
}

func (q *queue) Write(b []byte) (int, error)      { q.waiting += len(b); return len(b), nil }
func (q *queue) SetWriteDeadline(time.Time) error { return nil }
func (q *queue) SetLinger(s int) error            { q.linger = append(q.linger, s); return nil }

// A write may take for ever while its peer takes something now and then.
func TestSlowPeersAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newPatientConn(near, func() int { return 0 })
		const size, pause = 20, 9 * time.Second
		got := make(chan string)
		go func() {
			all, b := "", make([]byte, 1)
			for {
				time.Sleep(pause)
				if _, err := far.Read(b); err != nil {
					got <- all
					return
				}
				all += string(b)
			}
		}()
		began := time.Now()
		require.NoError(t, c.SetWriteDeadline(began.Add(10*time.Second)))
		text := "twenty bytes, slowly"
		n, err := c.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, size, n)
		require.Equal(t, size*pause, time.Since(began))
		require.NoError(t, near.Close())
		require.Equal(t, text, <-got)
	})
}

func TestStuckPeersAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for set, want := range map[time.Duration]time.Duration{0: patience, time.Second: time.Second, -time.Second: 0} {
			near, far := net.Pipe()
			c := newPatientConn(near, func() int { return 0 })
			go func() { _, _ = io.ReadFull(far, make([]byte, 3)) }()
			began := time.Now()
			if set != 0 {
				require.NoError(t, c.SetWriteDeadline(began.Add(set)))
			}
			n, err := c.Write([]byte("hello"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			took := time.Since(began)
			require.GreaterOrEqual(t, took, want)
			require.LessOrEqual(t, took, want*7/5)
			if set >= 0 {
				require.Equal(t, 3, n)
			}
			require.NoError(t, errors.Join(near.Close(), far.Close()))
		}
	})
}

// What the system has taken over shows nothing: a peer that is gone is noticed by what it does not acknowledge.
func TestVanishedPeersAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		c := newPatientConn(q, func() int { return q.waiting })
		says := func() error { _, err := c.Write([]byte(": keep-alive\n\n")); return err }
		for range 5 {
			require.NoError(t, says())
			time.Sleep(time.Second)
			q.waiting = 0
			time.Sleep(14 * time.Second)
		}
		require.NoError(t, says(), "all was acknowledged")
		time.Sleep(14 * time.Second)
		require.NoError(t, says(), "it has a second left")
		time.Sleep(time.Second)
		q.waiting--
		require.NoError(t, says(), "it acknowledged something")
		require.Empty(t, q.linger)
		time.Sleep(patience)
		require.ErrorIs(t, says(), os.ErrDeadlineExceeded)
		require.Equal(t, []int{0}, q.linger, "it is reset")
	})
}

// A peer that acknowledges while nothing is said is as alive as any.
func TestQuietPeersAreNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		c := newPatientConn(q, func() int { return q.waiting })
		for range 3 {
			_, err := c.Write([]byte("x"))
			require.NoError(t, err)
			q.waiting = 0
			time.Sleep(time.Hour)
		}
	})
}
