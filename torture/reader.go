package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/keel-agent/keel/torture/check"
	"github.com/keel-agent/keel/torture/plan"
)

// reading follows one session's stream over many connections, from its first event to its last.
type reading struct {
	caller
	session string
	name    string
	script  *plan.ReaderScript
	last    int64
}

// run connects again and again, until the reader has read all that there is at the end.
func (r *reading) run() {
	for !r.over() {
		if !r.connect(r.script.Next()) {
			r.server = (r.server + 1) % len(r.urls)
		}
		select {
		case <-r.limit.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *reading) over() bool {
	return r.finished.Err() != nil && r.last >= r.heads[[2]string{r.tenant, r.session}]
}

// connect reads one connection and writes down what it gave. It returns false when there is no use in asking the same
// server again.
func (r *reading) connect(how plan.Connection) bool {
	ctx, cancel := context.WithTimeout(r.limit, how.After)
	defer cancel()
	if r.finished.Err() == nil {
		defer context.AfterFunc(r.finished, cancel)() // one that waits for more would not notice
	}
	res, err := r.open(ctx, how)
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode < 500 {
			r.refused(r.session, fmt.Sprintf("stream behind %d", r.last), answer{res.StatusCode, body, 1})
		}
		return false
	}
	r.conns.Add(1)
	read := check.Read{Tenant: r.tenant, Session: r.session, Reader: r.name, After: r.last}
	seen := &partials{}
	whole := r.follow(res.Body, how, &read, seen)
	read.Partials = seen.list
	r.journal.add(check.Record{Read: &read})
	return whole
}

func (r *reading) open(ctx context.Context, how plan.Connection) (*http.Response, error) {
	query := "?"
	if !how.Header || r.last == 0 {
		query += fmt.Sprintf("after=%d&", r.last)
	}
	if how.Partials {
		query += "partials=1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.urls[r.server]+"/v1/sessions/"+r.session+"/events/stream"+query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+tokenOf(r.tenant))
	if how.Header && r.last > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(r.last, 10))
	}
	return r.streams.Do(req)
}

// follow reads frames until the script leaves or the stream ends; true when it was the script, or nothing is left.
func (r *reading) follow(body io.Reader, how plan.Connection, read *check.Read, seen *partials) bool {
	id := ""
	for e, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: 4 << 20}) {
		if err != nil {
			return false
		}
		switch e.Type {
		case "partial":
			r.partials.Add(1)
			seen.add(e.Data, e.LastEventID != id)
			id = e.LastEventID
			continue
		case "drain":
			return false
		}
		var event wireEvent
		if err := json.Unmarshal([]byte(e.Data), &event); err != nil {
			r.journal.fail(check.StreamDiffers, r.tenant, r.session, fmt.Sprintf("%s got a frame that is no event: %v: %q", r.name, err, e.Data))
			return false
		}
		id = e.LastEventID
		n, _ := strconv.ParseInt(id, 10, 64)
		read.Frames = append(read.Frames, event.frame(n))
		r.frames.Add(1)
		r.last = event.Seq
		if len(read.Frames) >= how.Frames || r.over() {
			return true
		}
	}
	return false
}

// partials gathers the partials of a connection by generation.
type partials struct{ list []check.Partial }

func (p *partials) add(data string, moved bool) {
	var got struct {
		GenerationID string
		RunID        string
		Delta        struct{ Text string }
	}
	if json.Unmarshal([]byte(data), &got) != nil {
		return
	}
	last := len(p.list) - 1
	if last < 0 || p.list[last].Generation != got.GenerationID {
		p.list = append(p.list, check.Partial{Generation: got.GenerationID, Run: got.RunID})
		last++
	}
	p.list[last].Text += got.Delta.Text
	p.list[last].MovedID = p.list[last].MovedID || moved
}
