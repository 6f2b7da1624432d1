package cascade_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/memory"
	"github.com/keel-agent/keel/app/cascade"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// failing refuses commands once some have been carried out.
type failing struct {
	*memory.Store
	left int
}

func (f *failing) Do(ctx context.Context, ref domain.SessionRef, c domain.Command) (domain.Outcome, error) {
	if f.left--; f.left < 0 {
		return domain.Outcome{}, ports.ErrUnavailable
	}
	return f.Store.Do(ctx, ref, c)
}

// made makes a session with a run, by a tool call of the run of the session named parent, "" for none. A run has the id of
// its session.
func made(t *testing.T, s *memory.Store, parent, id string) domain.SessionRef {
	t.Helper()
	ref := domain.SessionRef{Tenant: "t", Session: id}
	create := domain.CreateSession{At: time.Now(), Request: domain.StoredPayload(`{}`)}
	if parent != "" {
		create.Parent = &domain.Parent{Session: parent, Run: parent}
	}
	for _, c := range []domain.Command{create, domain.SubmitInput{
		At: time.Now(), RequestID: "r", Payload: domain.StoredPayload(`{"text":"go","requestId":"r"}`), NewRun: id,
	}} {
		_, err := s.Do(t.Context(), ref, c)
		require.NoError(t, err)
	}
	return ref
}

// family makes a session of more children than are looked for at a time, one of which has a child, and cancels its run.
func family(t *testing.T, s *memory.Store) (root domain.SessionRef, below []domain.SessionRef) {
	root = made(t, s, "", "root")
	for i := range 201 {
		below = append(below, made(t, s, "root", fmt.Sprint("child", i)))
	}
	below = append(below, made(t, s, "child200", "grandchild"))
	_, err := s.Do(t.Context(), root, domain.RequestCancel{})
	require.NoError(t, err)
	return root, below
}

func cancelled(t *testing.T, s *memory.Store, ref domain.SessionRef) bool {
	_, run, err := s.Sessions().Get(t.Context(), ref)
	require.NoError(t, err)
	return run.CancelSeq != nil
}

// All levels below a cancelled run end with it; what others made does not.
func TestCancel(t *testing.T) {
	for name, parent := range map[string]domain.SessionRef{"one parent": {Tenant: "t", Session: "root"}, "all": {}} {
		t.Run(name, func(t *testing.T) {
			s := memory.New(memory.Config{})
			other := made(t, s, "", "other")
			spared := made(t, s, "other", "spared")
			_, below := family(t, s)
			n, err := cascade.Cancel(t.Context(), s, s.Runs(), parent)
			require.NoError(t, err)
			require.Equal(t, len(below), n)
			for _, ref := range below {
				require.True(t, cancelled(t, s, ref), ref.Session)
			}
			require.False(t, cancelled(t, s, other))
			require.False(t, cancelled(t, s, spared))
		})
	}
}

// What a process that died in the middle has left is found by a look below all sessions.
func TestCancelIsRepeated(t *testing.T) {
	s := memory.New(memory.Config{})
	root, below := family(t, s)
	first, err := cascade.Cancel(t.Context(), &failing{s, 150}, s.Runs(), root)
	require.ErrorIs(t, err, ports.ErrUnavailable)
	require.Equal(t, 150, first)
	rest, err := cascade.Cancel(t.Context(), s, s.Runs(), domain.SessionRef{})
	require.NoError(t, err)
	require.Equal(t, len(below), first+rest)
}
