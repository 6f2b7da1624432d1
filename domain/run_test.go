package domain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/keel-agent/keel/domain"
)

// Full jitter between nothing and a ceiling that doubles from one second up to sixty; a longer Retry-After wins.
func TestBackoff(t *testing.T) {
	for attempts, ceiling := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 16 * time.Second,
		6: 32 * time.Second, 7: time.Minute, 8: time.Minute, 1 << 40: time.Minute, -3: time.Second,
	} {
		require.Zero(t, domain.Backoff(attempts, 0, 0), attempts)
		require.Equal(t, ceiling/2, domain.Backoff(attempts, 0.5, 0), attempts)
		require.Equal(t, ceiling/2, domain.Backoff(attempts, 0.5, ceiling/2-1), attempts)
		require.Equal(t, ceiling+1, domain.Backoff(attempts, 0.5, ceiling+1), attempts)
	}
}

func TestBackoffBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		attempts := rapid.Int().Draw(t, "attempts")
		jitter := rapid.Float64Range(0, 0.999999).Draw(t, "jitter")
		after := time.Duration(rapid.Int64Range(0, int64(domain.MaxRetryAfter)).Draw(t, "retryAfter"))
		wait := domain.Backoff(attempts, jitter, after)
		if wait < after || wait > max(after, time.Minute) {
			t.Fatalf("%v is out of bounds", wait)
		}
		if attempts < 1<<40 && domain.Backoff(attempts+1, jitter, after) < wait {
			t.Fatalf("a later attempt waits less")
		}
	})
}

func TestStates(t *testing.T) {
	for status, active := range map[domain.RunStatus]bool{
		domain.StatusPending: true, domain.StatusRunning: true, domain.StatusDone: false, domain.StatusFailed: false,
	} {
		require.Equal(t, active, status.Active(), status)
	}
	for reason, completed := range map[domain.StopReason]bool{
		domain.StopEndTurn: true, domain.StopToolUse: true, domain.StopLength: true, domain.StopRefusal: true,
		domain.StopError: false, domain.StopAborted: false,
	} {
		require.Equal(t, completed, reason.Completed(), reason)
	}
	require.True(t, domain.ToolCall{}.Open())
	require.False(t, domain.ToolCall{ResultSeq: 1}.Open())
}

func TestUsageAdd(t *testing.T) {
	one := &domain.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Reasoning: 5}
	var none *domain.Usage
	require.Nil(t, none.Add(nil))
	require.Equal(t, one, none.Add(one))
	require.Equal(t, one, one.Add(nil))
	require.Equal(t, &domain.Usage{Input: 2, Output: 4, CacheRead: 6, CacheWrite: 8, Reasoning: 10}, one.Add(one))
	require.NotSame(t, one, none.Add(one))
	require.Equal(t, int64(1), one.Input)
}
