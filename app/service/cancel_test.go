package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/app/service"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// forgetful loses the reply to a cancel, and gives it again when the session has gone on.
type forgetful struct {
	ports.Ledger
	goOn func()
}

func (f *forgetful) Do(ctx context.Context, ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error) {
	if _, ok := cmd.(domain.RequestCancel); ok {
		if _, err := f.Ledger.Do(ctx, ref, cmd); err != nil {
			return domain.Outcome{}, err
		}
		f.goOn()
	}
	return f.Ledger.Do(ctx, ref, cmd)
}

// TestCancelWhoseReplyIsLost: it ends the run that was active when it was asked for, and no later one.
func TestCancelWhoseReplyIsLost(t *testing.T) {
	ledger := &forgetful{}
	s, store := newService(t, func(d *service.Deps) { ledger.Ledger, d.Ledger = d.Ledger, ledger })
	ctx := t.Context()
	none, err := s.Cancel(ctx, ref, domain.StoredPayload(`{}`))
	require.NoError(t, err)
	require.Nil(t, none)
	_, err = s.SubmitInput(ctx, ref, domain.StoredPayload(`{"text":"one"}`))
	require.NoError(t, err)
	ledger.goOn = func() {
		require.NoError(t, store.Processes().Register(ctx, "p", "", time.Minute))
		claims, err := store.Runs().Claim(ctx, ports.ClaimRequest{Process: "p", Max: 1, Budget: 3})
		require.NoError(t, err)
		require.Len(t, claims, 1)
		run := claims[0].Run
		_, err = store.Do(ctx, ref, domain.Settle{
			Run: run.ID, Token: domain.Token{Process: "p", Epoch: run.Epoch}, Result: domain.Failure,
			Summary: domain.Summary{StopReason: domain.StopAborted}, Budget: 3, NewRun: "next",
		})
		require.NoError(t, err)
		_, err = s.SubmitInput(ctx, ref, domain.StoredPayload(`{"text":"two"}`))
		require.NoError(t, err)
	}
	cancelled, err := s.Cancel(ctx, ref, domain.StoredPayload(`{}`))
	require.NoError(t, err)
	require.Equal(t, domain.ReasonCancelled, cancelled.Reason)
	_, next, err := store.Sessions().Get(ctx, ref)
	require.NoError(t, err)
	require.NotEqual(t, cancelled.ID, next.ID)
	require.Nil(t, next.CancelSeq)

	_, err = s.Cancel(ctx, domain.SessionRef{Tenant: "t", Session: "nowhere"}, domain.StoredPayload(`{}`))
	require.ErrorIs(t, err, domain.ErrNotFound)
}
