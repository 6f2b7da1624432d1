package openai

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

const (
	// maxErrorBody bounds what is read of an error body.
	maxErrorBody = 64 << 10
	// tail is how long a complete answer waits for its usage where the backend neither sends [DONE] nor ends the body, and
	// how long an error waits for its body.
	tail = 3 * time.Second
	// linger is how long the end of a body is waited for after [DONE], so that its connection can serve again.
	linger = 50 * time.Millisecond
)

// errLearned tells that the backend refused a parameter which the next request will leave out.
var errLearned = errors.New("the backend refused a parameter")

// Generate asks for one answer; see ports.Provider.
func (p *Provider) Generate(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	reply, err := p.generate(ctx, req, emit)
	return reply, p.secrets.Redact(err)
}

func (p *Provider) generate(ctx context.Context, req ports.ModelRequest, emit func(ports.Delta)) (ports.Reply, error) {
	if req.Model == "" {
		model, err := p.defaultModel(ctx)
		if err != nil {
			return ports.Reply{}, err
		}
		req.Model = model
	}
	for {
		body, err := p.body(req)
		if err != nil {
			return ports.Reply{Model: req.Model}, err
		}
		reply, err := p.exchange(ctx, req.Model, body, emit)
		if !errors.Is(err, errLearned) {
			return reply, err
		}
	}
}

// exchange sends one request and reads its answer.
func (p *Provider) exchange(ctx context.Context, model string, body []byte, emit func(ports.Delta)) (ports.Reply, error) {
	watched, watch := wire.NewWatch(ctx, p.cfg.IdleTimeout)
	defer watch.Stop()
	r, err := p.request(watched, http.MethodPost, "/chat/completions", body)
	if err != nil {
		return ports.Reply{Model: model}, err
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return ports.Reply{Model: model}, watch.Fault(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		err := p.refusal(resp, model, watch)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return ports.Reply{Model: model}, err
	}
	d := &decoder{emit: emit}
	reply, err := d.read(resp.Body, model, watch)
	if ctx.Err() != nil {
		return reply, context.Cause(ctx)
	}
	var fault *ports.ProviderError
	if errors.As(err, &fault) && fault.RetryAfter == 0 {
		fault.RetryAfter = wire.RetryAfter(resp.Header, time.Now())
	}
	return reply, err
}

// refusal returns the fault of an answer that is none.
func (p *Provider) refusal(resp *http.Response, model string, watch *wire.Watch) error {
	if resp.StatusCode < 400 {
		return &ports.ProviderError{
			Class: ports.Fatal, Status: resp.StatusCode, Code: "redirect", Message: "the backend redirects; configure the base URL that it redirects to",
		}
	}
	watch.Last(tail)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if (resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnprocessableEntity) && p.learn(model, body) {
		return errLearned
	}
	f := wire.BodyFault(resp.StatusCode, body)
	f.RetryAfter = wire.RetryAfter(resp.Header, time.Now())
	return f.Error()
}

// read reads the body of an answer: a stream, or a whole completion where the backend does not stream.
func (d *decoder) read(body io.Reader, model string, watch *wire.Watch) (ports.Reply, error) {
	buffered := bufio.NewReader(body)
	if startsJSON(buffered) {
		return d.readWhole(buffered, model, watch)
	}
	stream := wire.NewStream(buffered)
	last, err := d.readEvents(stream, watch)
	var fault *ports.ProviderError
	switch {
	case errors.As(err, &fault):
		return d.partial(model), err
	case d.finish != "":
		if last == done {
			watch.Last(linger)
			_, _ = io.Copy(io.Discard, io.LimitReader(buffered, maxErrorBody))
		}
		return d.reply(model)
	}
	if fault := wire.StrayFault(stream.Stray()); fault != nil {
		return d.partial(model), fault
	}
	if err != nil {
		return d.partial(model), watch.Fault(err)
	}
	return d.partial(model), wire.Cut(stream.Stray())
}

// readEvents reads until nothing more will come, and returns what the last event meant. The error is a fault of the
// backend, or whatever ended the reading.
func (d *decoder) readEvents(stream *wire.Stream, watch *wire.Watch) (life, error) {
	last := ping
	for e, err := range stream.Events() {
		if err != nil {
			return last, err
		}
		l, err := d.event(e)
		if err != nil {
			return l, err
		}
		switch {
		case l == done:
			return done, nil
		case l == finished && last != finished:
			watch.Last(tail)
		case l == alive:
			watch.Alive()
		}
		last = max(last, l)
	}
	return last, nil
}

func (d *decoder) readWhole(body io.Reader, model string, watch *wire.Watch) (ports.Reply, error) {
	whole, err := io.ReadAll(io.LimitReader(body, maxReply))
	if err != nil {
		if fault := wire.StrayFault(whole); fault != nil {
			return d.partial(model), fault
		}
		return d.partial(model), watch.Fault(err)
	}
	if err := d.completion(whole); err != nil {
		return d.partial(model), err
	}
	return d.reply(model)
}

// startsJSON reports whether the first byte that is no white space begins a JSON value, and skips to it.
func startsJSON(r *bufio.Reader) bool {
	for {
		b, err := r.ReadByte()
		switch {
		case err != nil:
			return false
		case b == ' ' || b == '\t' || b == '\r' || b == '\n':
			continue
		}
		_ = r.UnreadByte()
		return b == '{' || b == '['
	}
}

func reader(body []byte) io.Reader {
	if body == nil {
		return nil
	}
	return bytes.NewReader(body)
}
