package ports

import "github.com/keel-agent/keel/domain"

// Wakeups tells waiters that there may be something new. It is a hint: a wake-up may be lost, several may be merged
// into one, and one may come for nothing. So a waiter looks at the store after each, and now and then without any.
type Wakeups interface {
	// Subscribe returns a channel that receives after each relevant commit, once when the subscription is armed, and
	// once after each reconnect of the transport behind it. The channel is never closed. cancel ends the subscription;
	// it may be called more than once.
	Subscribe(t Topic) (wake <-chan struct{}, cancel func())
}

// Topic is what a waiter waits for: a session or a process. The zero Topic is the queue of claimable runs.
type Topic struct {
	Session domain.SessionRef // new events, or a changed state, of this session
	Remote  bool              // with Session: by commits of other processes alone
	Process string            // something for the process that runs a session: a cancel, an input
}

// QueueTopic is woken when a run may have become claimable.
var QueueTopic = Topic{}
