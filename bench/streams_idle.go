package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// idleStreams measures what a stream that nothing happens on costs the server, beside what net/http alone costs.
func idleStreams(ctx context.Context, b *bench) ([]row, error) {
	n := pick(b, 10_000, 2000)
	ours, err := b.perStream(ctx, n, "-store", "sqlite:"+filepath.Join(b.dir, newID()+".db"))
	if err != nil {
		return nil, err
	}
	limit, err := b.perStream(ctx, n)
	if err != nil {
		return nil, err
	}
	g := atMost(24*1024, "≤ 24 KiB")
	return []row{{
		measure: "memory of an idle stream, " + thousands(n) + " streams of " + thousands(n/streamsPerSession) + " sessions", ours: kib(ours),
		limit: "net/http alone " + kib(limit), ratio: times(ours / limit), goal: g.text, met: g.met(ours),
	}}, nil
}

const streamsPerSession = 10

// perStream opens n streams on a server and returns the bytes that each made it grow by.
func (b *bench) perStream(ctx context.Context, n int, server ...string) (float64, error) {
	c, err := b.startChild(ctx, server...)
	if err != nil {
		return 0, err
	}
	defer c.stop()
	session := func(i int) string { return fmt.Sprintf("idle-%d", i/streamsPerSession) }
	if len(server) > 0 {
		p, err := openPoster(ctx, c.address())
		if err != nil {
			return 0, err
		}
		defer p.close()
		for i := 0; i < n; i += streamsPerSession {
			if _, err := p.post("/v1/sessions", jsonType, `{"id":"`+session(i)+`"}`); err != nil {
				return 0, err
			}
		}
	}
	before, err := c.memory()
	if err != nil {
		return 0, err
	}
	open, err := openStreams(ctx, c.address(), n, func(i int) string { return streamPath(session(i), 0) })
	if err != nil {
		return 0, err
	}
	defer open.close()
	after, err := c.memory()
	if err != nil {
		return 0, err
	}
	return (float64(after) - float64(before)) / float64(n), nil
}
