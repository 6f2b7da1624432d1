package apitest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// frame is one frame of a stream as a client dispatches it. A comment has neither id nor data.
type frame struct {
	id, event, data, comment string
}

// frames is an open stream.
type frames struct {
	t      *testing.T
	resp   *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// stream opens a stream, resuming after lastID unless that is "".
func (c *client) stream(path, lastID string) *frames {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	req := c.request(http.MethodGet, path, "").WithContext(ctx)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := c.http.Do(req)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { resp.Body.Close() })
	f := &frames{t: c.t, resp: resp, lines: bufio.NewScanner(resp.Body), cancel: cancel}
	f.lines.Buffer(nil, 4<<20)
	c.t.Cleanup(f.close)
	require.Equal(c.t, http.StatusOK, resp.StatusCode)
	require.Equal(c.t, "text/event-stream", resp.Header.Get("Content-Type"))
	return f
}

// next returns the next frame; the stream must have one.
func (f *frames) next() frame {
	f.t.Helper()
	got, ok := f.read()
	require.True(f.t, ok, "the stream ended")
	return got
}

// end demands that the stream ends here, cleanly.
func (f *frames) end() {
	f.t.Helper()
	got, ok := f.read()
	require.False(f.t, ok, "%+v", got)
	require.NoError(f.t, f.lines.Err())
}

func (f *frames) read() (got frame, ok bool) {
	for f.lines.Scan() {
		line := f.lines.Text()
		if line == "" {
			return got, true
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "":
			got.comment = value
		case "id":
			got.id = value
		case "event":
			got.event = value
		case "data":
			got.data += value
		}
	}
	return frame{}, false
}

func (f *frames) close() {
	f.cancel()
	_, _ = io.Copy(io.Discard, f.resp.Body)
	f.resp.Body.Close()
}
