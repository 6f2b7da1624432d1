package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

// child makes a session that a call of parent's active run made, with an input, and returns its ref and that run.
func (w *world) child(parent domain.SessionRef, id string) domain.SessionRef {
	w.t.Helper()
	ctx := context.Background()
	_, maker, err := w.store.Sessions().Get(ctx, parent)
	require.NoError(w.t, err)
	ref := domain.SessionRef{Tenant: parent.Tenant, Session: id}
	_, err = w.store.Do(ctx, ref, domain.CreateSession{
		At: time.Now(), Request: payload(w.t, `{}`), Parent: &domain.Parent{Session: parent.Session, Run: maker.ID, Call: "c"},
	})
	require.NoError(w.t, err)
	_, err = w.store.Do(ctx, ref, domain.SubmitInput{
		At: time.Now(), RequestID: "r", Payload: payload(w.t, `{"text":"dig","requestId":"r"}`), NewRun: w.ids.New(),
	})
	require.NoError(w.t, err)
	synctest.Wait()
	return ref
}

// TestCancelReachesChildrenOfTheDead: whoever cancelled the parent died before the children were told, and so did the
// process that ran them.
func TestCancelReachesChildrenOfTheDead(t *testing.T) {
	play(t, func(w *world) {
		w.script(slowly(time.Hour, text("late")))
		dead := w.start()
		w.say("go")
		synctest.Wait()
		child := w.child(w.ref, "child")
		grandchild := w.child(child, "grandchild")
		w.cancel()
		dead.line.setCut(true)
		w.start()
		began := time.Now()
		for _, ref := range []domain.SessionRef{w.ref, child, grandchild} {
			for {
				_, run, err := w.store.Sessions().Get(context.Background(), ref)
				require.NoError(t, err)
				if run == nil {
					break
				}
				require.Less(t, time.Since(began), time.Minute, "%s runs on", ref.Session)
				time.Sleep(time.Second) // fake time
			}
			runs, err := w.store.Runs().List(context.Background(), ref, nil, 10)
			require.NoError(t, err)
			require.Len(t, runs, 1)
			require.Equal(t, domain.StatusFailed, runs[0].Status)
			require.NotNil(t, runs[0].CancelSeq)
		}
	})
}
