package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tmaxmax/go-sse"
)

// Pauses between tries.
const (
	firstPause = time.Second
	longPause  = 15 * time.Second
)

// silence is how long a stream may be silent: the server says something every 15 s.
const silence = time.Minute

// follower reads a session's event stream and takes it up again after its last event when it ends or breaks.
type follower struct {
	clientFlags

	session  string
	after    int64 // the last event that was read
	partials bool
	once     bool // leave when the stream ends

	frame  func(sse.Event) error               // is given each frame; its error ends the work
	broken func(err error, wait time.Duration) // is told of what a new connection may mend
}

// follow works until ctx ends, or until a retry is no use.
func (f *follower) follow(ctx context.Context) error {
	for wait := firstPause; ; {
		retry, err := f.stream(ctx, &wait)
		alive := ctx.Err() == nil
		switch {
		case !alive:
			return nil
		case errors.Is(err, errRefused), f.once:
			return err
		case err != nil:
			retry, wait = wait, min(2*wait, longPause)
			f.broken(err, retry)
		}
		if !pause(ctx, retry) {
			return nil
		}
	}
}

// pause waits and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// stream reads one stream to its end and returns how long to wait before the next. Once there is a stream it resets wait.
func (f *follower) stream(ctx context.Context, wait *time.Duration) (retry time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query, header := url.Values{"after": {strconv.FormatInt(f.after, 10)}}, http.Header{}
	if f.partials {
		query.Set("partials", "1")
	}
	if f.after > 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(f.after, 10))
	}
	res, err := f.request(ctx, http.MethodGet, nil, query, header, f.session, "events", "stream")
	if missing(err) {
		return 0, hopeless{fmt.Errorf("there is no session %q", f.session)}
	}
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "text/event-stream" {
		return 0, errStranger
	}
	watched := &watchedReader{res.Body, time.AfterFunc(silence, cancel)}
	defer watched.alarm.Stop()
	*wait, retry = firstPause, firstPause
	for e, err := range sse.Read(watched, &sse.ReadConfig{MaxEventSize: 64 << 20}) {
		if err != nil {
			return retry, fmt.Errorf("the stream broke: %w", err)
		}
		if e.Type == "drain" {
			retry = drainWait(e.Data, retry)
			continue
		}
		if err := f.frame(e); err != nil {
			return 0, hopeless{err}
		}
		if seq, err := strconv.ParseInt(e.LastEventID, 10, 64); err == nil && e.Type != "partial" {
			f.after = seq
		}
	}
	return retry, nil
}

// watchedReader calls the alarm when no byte has come for too long.
type watchedReader struct {
	io.Reader
	alarm *time.Timer
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.alarm.Reset(silence)
	return n, err
}

func drainWait(data string, otherwise time.Duration) time.Duration {
	var hint struct {
		RetryAfterMS int64 `json:"retry_after_ms"`
	}
	if json.Unmarshal([]byte(data), &hint) != nil || hint.RetryAfterMS <= 0 {
		return otherwise
	}
	return time.Duration(hint.RetryAfterMS) * time.Millisecond
}
