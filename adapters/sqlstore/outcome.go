package sqlstore

import (
	"slices"
	"time"

	"github.com/keel-agent/keel/domain"
)

// CompleteOutcome puts into the outcome of fx what only the store's clock knows: when its run is due.
func CompleteOutcome(fx *domain.Effects, nowMS int64) {
	run := fx.Outcome.Run
	if run == nil {
		return
	}
	for i := range fx.Runs {
		c := &fx.Runs[i]
		if c.Run.ID == run.ID && c.Due != nil {
			run.AvailableAt = time.UnixMilli(nowMS + c.Due.Milliseconds()).UTC()
		}
	}
}

// DoNowhere decides cmd for a session that cannot exist because its ref is not Storable.
func DoNowhere(ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error) {
	fx, err := domain.Decide(domain.View{Ref: ref}, cmd)
	if err == nil && !fx.Empty() {
		err = domain.ErrInvalidRequest.With("an id must be valid UTF-8 without U+0000")
	}
	return fx.Outcome, err
}

// Wrote reports whether v shows exactly the state that a lost write of fx leaves. It is certain only where fx appended
// an event: no other write shares its hash, except that of an equal request which came in the same millisecond. Such a
// twin differs in the run that it named, if it named one; otherwise its outcome is the same.
func Wrote(v domain.View, fx *domain.Effects) bool {
	return fx != nil && v.Session != nil && len(fx.Events) > 0 && v.Session.Version == fx.Session.Version &&
		v.Session.HeadHash == fx.Session.HeadHash && (v.Event == nil || holds(fx, v.Event))
}

// holds reports whether e is an event of fx.
func holds(fx *domain.Effects, e *domain.Event) bool {
	return slices.ContainsFunc(fx.Events, func(own domain.Event) bool { return own.Hash == e.Hash && own.RunID == e.RunID })
}

// WroteKey reports whether v shows that a lost write of fx went through, whatever was written since: the event under
// its key, or the session that it created, is its own.
func WroteKey(v domain.View, fx *domain.Effects) bool {
	switch {
	case fx == nil || v.Session == nil:
		return false
	case fx.Create:
		return v.Session.CreatedAt.Equal(fx.Session.CreatedAt)
	case v.Event == nil:
		return false
	}
	return holds(fx, v.Event)
}
