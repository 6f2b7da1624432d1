package runner

import (
	"container/list"
	"sync"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// cacheEvents bounds the cache: the events that all transcripts in it hold.
const cacheEvents = 500_000

// cache keeps the transcripts of sessions that were run here lately, so that the next turn reads only what is new. A
// transcript is out of the cache while an attempt uses it. What it holds is a projection of committed events, so it
// can never be wrong, only behind.
type cache struct {
	mu     sync.Mutex
	events int
	order  list.List // of *cached, latest first
	find   map[domain.SessionRef]*list.Element
}

type cached struct {
	ref  domain.SessionRef
	t    *domain.Transcript
	held int
}

// take removes and returns the transcript of ref, or nil.
func (c *cache) take(ref domain.SessionRef) *domain.Transcript {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.find[ref]
	if e == nil {
		return nil
	}
	return c.remove(e).t
}

// maxFollowed bounds the payload of an event that is applied on the way of its commit.
const maxFollowed = 64 << 10

// follow applies what was committed to the transcript of its session, if that is here, and begins one with a session's
// first event when a run was queued for it. A commit that does not come next is left to be read.
func (c *cache) follow(commit ports.Commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.find[commit.Ref]
	begins := e == nil && commit.Wake.Queue
	if len(commit.Events) == 0 || e == nil && !begins {
		return
	}
	t := domain.NewTranscript()
	if e != nil {
		t = e.Value.(*cached).t
	}
	before := t.Head()
	for _, ev := range commit.Events {
		if ev.Seq != t.Head()+1 || len(ev.Payload.String()) > maxFollowed {
			break
		}
		if t.Apply(ev) != nil {
			break // the attempt that reads it reports it
		}
	}
	if t.Head() > before {
		c.keep(commit.Ref, t)
	}
}

// put keeps a transcript. The one that was put longest ago makes room when there is none.
func (c *cache) put(ref domain.SessionRef, t *domain.Transcript) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(ref, t)
}

// keep needs the lock.
func (c *cache) keep(ref domain.SessionRef, t *domain.Transcript) {
	if c.find == nil {
		c.find = map[domain.SessionRef]*list.Element{}
	}
	if e := c.find[ref]; e != nil {
		c.remove(e)
	}
	c.find[ref] = c.order.PushFront(&cached{ref, t, t.Held()})
	c.events += t.Held()
	for c.events > cacheEvents && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(e *list.Element) *cached {
	kept := c.order.Remove(e).(*cached)
	delete(c.find, kept.ref)
	c.events -= kept.held
	return kept
}
