package app

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A client that announces a body and sends none does not decide how the process ends.
func TestTheEndCutsWhoDawdles(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	reading := make(chan struct{})
	s := &server{log: zap.New(core), http: &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(reading)
		_, _ = io.Copy(io.Discard, r.Body)
	})}}
	s.http.ConnState = s.conns.note
	go func() { _ = s.http.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
	require.NoError(t, err)
	<-reading
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.NoError(t, s.finish(ctx))
	require.Equal(t, 1, logs.FilterMessage("connections cut").Len())
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, s.finish(t.Context()), "nothing is left")
	require.Equal(t, 1, logs.Len())
}

// piped is a listener whose connections are pipes, which a synctest bubble can wait for.
type piped struct {
	conns  chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

func newPiped() *piped {
	p := &piped{conns: make(chan net.Conn)}
	p.closed, p.close = context.WithCancel(context.Background())
	return p
}

func (p *piped) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *piped) Close() error { p.close(); return nil }
func (*piped) Addr() net.Addr { return &net.UnixAddr{} }

// What was accepted last may not have said anything when the drain ends. Its request is answered if it comes soon.
func TestTheEndWaitsForRequests(t *testing.T) {
	for after, answered := range map[time.Duration]bool{lingering / 2: true, 2 * lingering: false} {
		synctest.Test(t, func(t *testing.T) {
			l := newPiped()
			s := &server{log: zap.NewNop(), drain: newDrainer(), listener: l, served: make(chan struct{})}
			s.http = &http.Server{ConnState: s.conns.note, Handler: s.drain.lastOnes(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(3 * time.Second)
				_, _ = io.WriteString(w, "done")
			}))}
			go s.serve(l)
			near, far := net.Pipe()
			defer near.Close()
			l.conns <- far
			close(s.drain.ready)
			s.stopAccepting()
			ctx, cancel := context.WithTimeout(t.Context(), stopMargin/2)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- s.finish(ctx) }()
			time.Sleep(after)
			synctest.Wait()
			_, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			require.Equal(t, answered, err == nil, err)
			if answered {
				res, err := http.ReadResponse(bufio.NewReader(near), nil)
				require.NoError(t, err)
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.Equal(t, "done", string(text))
				require.True(t, res.Close)
			}
			require.NoError(t, <-ended)
		})
	}
}
