package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// streams are open event streams: raw connections, since the client shares the machine with the server.
type streams []net.Conn

// openStreams opens n streams at addr, stream i at path(i), and returns when the server has answered all.
func openStreams(ctx context.Context, addr string, n int, path func(i int) string) (streams, error) {
	open := make(streams, n)
	err := each(ctx, n, 64, func(ctx context.Context, i int) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		open[i] = conn
		return openStream(conn, path(i), addr)
	})
	if err != nil {
		open.close()
		return nil, err
	}
	return open, nil
}

// openStream asks for a stream and reads no further than the answer's header.
func openStream(conn net.Conn, path, host string) error {
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", path, host); err != nil {
		return err
	}
	var head []byte
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); {
		if _, err := conn.Read(one); err != nil {
			return err
		}
		head = append(head, one[0])
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("GET %s: %s", path, bytes.SplitN(head, []byte("\r\n"), 2)[0])
	}
	return conn.SetDeadline(time.Time{})
}

func (s streams) close() {
	for _, conn := range s {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// frameIDs reads frames and tells the id of each as soon as it is there, until the stream ends. The lines between the
// chunks of the transfer encoding are passed over like all others.
func frameIDs(stream io.Reader, tell func(id int64)) error {
	lines := bufio.NewReaderSize(stream, 4096)
	for whole := true; ; {
		line, err := lines.ReadSlice('\n')
		begins := whole
		whole = err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		id, ok := bytes.CutPrefix(line, []byte("id: "))
		if !ok || !begins {
			continue
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(id)), 10, 64); err == nil {
			tell(n)
		}
	}
}

// poster posts over one connection.
type poster struct {
	conn net.Conn
	in   *bufio.Reader
	host string
}

func openPoster(ctx context.Context, addr string) (*poster, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &poster{conn: conn, in: bufio.NewReader(conn), host: addr}, nil
}

func (p *poster) close() { _ = p.conn.Close() }

// post sends a body, waits for the answer and returns when it began to arrive.
func (p *poster) post(path, contentType, body string) (answered time.Time, err error) {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, p.host, contentType, len(body))
	if _, err := io.WriteString(p.conn, head+body); err != nil {
		return answered, err
	}
	if _, err := p.in.Peek(1); err != nil {
		return answered, err
	}
	answered = time.Now()
	res, err := http.ReadResponse(p.in, nil)
	if err != nil {
		return answered, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("POST %s: %s: %s", path, res.Status, strings.TrimSpace(string(text)))
	}
	return answered, err
}

const jsonType = "application/json"

func streamPath(session string, after int64) string {
	return "/v1/sessions/" + session + "/events/stream?after=" + strconv.FormatInt(after, 10)
}
