package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
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
