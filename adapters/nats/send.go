package nats

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/bus"
)

// allToken stands for bus.Everyone, which is no subject token.
const allToken bus.Digest = "all"

// send brings the server up to date, at once when nothing was sent lately, else after the gap: what to tell the others,
// and whose frames to pass on to this process. Only this goroutine writes to the connection, so nobody else waits for it.
func (b *Bus) send(ctx context.Context, frames chan *nats.Msg) {
	subscribed := map[bus.Digest]*nats.Subscription{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wakeups.Outbox().Filled():
		case <-b.relay.Filled():
		case <-b.sessions.changed:
			b.subscribe(subscribed, frames)
		}
		pause := gap
		if err := b.publish(); err != nil {
			pause = retryAfter
		}
		sleep(ctx, pause)
	}
}

// publish sends all that waits and returns when the server has it. Wake-ups that it could not send go back; frames are
// lost.
func (b *Bus) publish() error {
	wake, frames := b.wakeups.Outbox().Take(), b.relay.Take()
	if len(wake) == 0 && len(frames) == 0 {
		return nil
	}
	err := b.publishAll(wake, frames)
	if err != nil {
		b.wakeups.Outbox().PutBack(wake)
	}
	return err
}

func (b *Bus) publishAll(wake map[bus.Digest]struct{}, frames []bus.Outgoing) error {
	for d := range wake {
		if d == bus.Everyone {
			d = allToken
		}
		if err := b.conn.Publish(b.wakePrefix+string(d), nil); err != nil {
			return err
		}
	}
	for _, f := range frames {
		if err := b.conn.Publish(b.partialPrefix+string(f.To), f.Text); err != nil {
			return err
		}
	}
	return b.conn.FlushTimeout(sendTimeout)
}

// subscribe asks the server for the frames of the sessions that have subscribers here, and for no others.
func (b *Bus) subscribe(subscribed map[bus.Digest]*nats.Subscription, frames chan *nats.Msg) {
	for d, wanted := range b.sessions.take() {
		sub := subscribed[d]
		var err error
		switch {
		case wanted && sub == nil:
			if sub, err = b.conn.ChanSubscribe(b.partialPrefix+string(d), frames); err == nil {
				subscribed[d] = sub
			}
		case !wanted && sub != nil:
			delete(subscribed, d)
			err = sub.Unsubscribe()
		}
		if err != nil {
			b.log.Warn("subscription failed", zap.Error(err))
		}
	}
}

var _ bus.Interest = (*sessions)(nil)

// sessions collects which sessions got subscribers here and which have lost them. Who wants what elsewhere is the
// server's business.
type sessions struct {
	changed chan struct{} // holds a token while there are changes

	mu      sync.Mutex
	changes map[bus.Digest]bool // true: there are subscribers
}

func newSessions() *sessions {
	return &sessions{changed: make(chan struct{}, 1), changes: make(map[bus.Digest]bool)}
}

// Wanted implements bus.Interest.
func (*sessions) Wanted(bus.Digest) bool { return true }

// Join implements bus.Interest.
func (s *sessions) Join(d bus.Digest) { s.change(d, true) }

// Leave implements bus.Interest.
func (s *sessions) Leave(d bus.Digest) { s.change(d, false) }

func (s *sessions) change(d bus.Digest, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes[d] = wanted
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *sessions) take() map[bus.Digest]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := maps.Clone(s.changes)
	clear(s.changes)
	return taken
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
