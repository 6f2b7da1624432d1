package sse

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Config is what a Handler is made of. Zero durations mean the defaults.
type Config struct {
	Source   Source
	Partials ports.Partials  // nil: streams have no partials
	Draining <-chan struct{} // closed when the process begins to drain: streams that open from then on end at once; nil: never
	Drain    <-chan struct{} // closed when all streams are to end, after the attempts of this process ended; nil: never
	Jitter   func() float64  // in [0,1), spreads the clients' return after a drain; nil: no spread
	Log      *zap.Logger     // nil: no log

	KeepAlive    time.Duration // silence before a comment; 15 s
	WriteTimeout time.Duration // for each piece of at most 32 KiB, or a tenth less; 10 s. A client that takes nothing for so long is cut
}

// Handler serves streams.
type Handler struct{ cfg Config }

// New returns a handler.
func New(cfg Config) *Handler {
	cfg.KeepAlive = orDefault(cfg.KeepAlive, 15*time.Second)
	cfg.WriteTimeout = orDefault(cfg.WriteTimeout, 10*time.Second)
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	cfg.Log = cfg.Log.Named("sse")
	return &Handler{cfg: cfg}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Serve streams the events with seq > after until the client leaves, cannot be written to, or the process drains. It
// returns an error only while nothing has been written, the errors of Source.Open among others. For a HEAD request it
// sends the headers alone.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, ref domain.SessionRef, after domain.Seq, partials bool) error {
	s, err := h.open(w, r, ref, after)
	if err != nil {
		return err
	}
	defer s.reader.Close()
	if err := s.out.check(); err != nil {
		return err
	}
	if err := s.serve(r, partials); err != nil {
		s.log().Debug("stream cut", zap.Error(err)) // the client learns it from the end of the connection
	}
	return nil
}

func (h *Handler) open(w http.ResponseWriter, r *http.Request, ref domain.SessionRef, after domain.Seq) (*stream, error) {
	reader, err := h.cfg.Source.Open(r.Context(), ref, after)
	if err != nil {
		return nil, err
	}
	return &stream{
		cfg: &h.cfg, ref: ref, end: h.cfg.endOfNew(), reader: reader,
		out: writer{w: w, rc: http.NewResponseController(w), timeout: h.cfg.WriteTimeout, resets: r.ProtoMajor > 1},
	}, nil
}

// stream is one open stream.
type stream struct {
	cfg    *Config
	end    <-chan struct{} // closed when the stream is to end
	ref    domain.SessionRef
	reader Reader
	out    writer
	filter partialFilter
}

// log is made when there is something to say: an idle stream keeps little.
func (s *stream) log() *zap.Logger { return s.cfg.Log.With(zap.String("session", s.ref.Session)) }

// serve hears of partials from before the headers on, so that a client that sees those misses none.
func (s *stream) serve(r *http.Request, wantPartials bool) error {
	partials, cancel := subscribePartials(s.cfg.Partials, s.ref, wantPartials)
	defer cancel()
	defer func() { _ = s.out.noDeadline() }()
	if err := s.out.begin(); err != nil || r.Method == http.MethodHead {
		return err
	}
	return s.run(r.Context(), partials)
}

func (s *stream) run(ctx context.Context, partials <-chan ports.Partial) error {
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	keepAlive := time.NewTimer(s.cfg.KeepAlive)
	defer keepAlive.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.end:
			return s.drain(ctx)
		case p := <-partials:
			err = s.partial(p, partials)
		case <-keepAlive.C:
			err = s.keepAlive(keepAlive)
		case <-s.reader.Wake():
			err = s.catchUp(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// endOfNew returns what ends a stream that opens now.
func (c *Config) endOfNew() <-chan struct{} {
	select {
	case <-c.Draining:
		return c.Draining
	default:
		return c.Drain
	}
}

// keepAlive writes a comment unless something else was written lately, and sets the timer for the next one.
func (s *stream) keepAlive(next *time.Timer) error {
	wait := s.cfg.KeepAlive - time.Since(s.out.last)
	if wait > 0 {
		next.Reset(wait)
		return nil
	}
	next.Reset(s.cfg.KeepAlive)
	return s.out.send([]byte(keepAliveFrame))
}

// catchUp sends every event committed so far. While the store is out of reach it gives up without an error: the next
// wake-up tries again from the same cursor.
func (s *stream) catchUp(ctx context.Context) error {
	for {
		frames, err := s.reader.Next(ctx)
		if errors.Is(err, ports.ErrUnavailable) && ctx.Err() == nil {
			s.log().Debug("store unavailable, stream waits", zap.Error(err))
			return s.out.flush()
		}
		if err != nil {
			if ctx.Err() == nil {
				s.log().Error("cannot read the ledger", zap.Error(err))
			}
			return err
		}
		if len(frames) == 0 {
			return s.out.flush()
		}
		for _, f := range frames {
			if err := s.out.add(f.Bytes); err != nil {
				return err
			}
			s.filter.committed(f)
		}
	}
}

// together is how many partials are sent at most before the stream looks at anything else.
const together = 64

// partial sends p and those that wait behind it, as one write.
func (s *stream) partial(p ports.Partial, more <-chan ports.Partial) error {
	for left := together; ; left-- {
		if s.filter.pass(p) {
			data, err := encodePartial(p)
			if err != nil {
				return err
			}
			if err := s.out.add(appendPartialFrame(nil, data)); err != nil {
				return err
			}
		}
		if left == 1 {
			return s.out.flush()
		}
		select {
		case p = <-more:
		default:
			return s.out.flush()
		}
	}
}

// drain sends what is committed, then the drain frame.
func (s *stream) drain(ctx context.Context) error {
	s.reader.LastLook()
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	return s.out.send(drainFrame(s.cfg.retryAfter()))
}

// meanRetry is how long clients wait, on average, before they connect again after a drain.
const meanRetry = 3 * time.Second

// retryAfter spreads the return of clients over half to one and a half times the mean.
func (c *Config) retryAfter() time.Duration {
	if c.Jitter == nil {
		return meanRetry
	}
	return meanRetry/2 + time.Duration(c.Jitter()*float64(meanRetry))
}
