package domain_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

// The vocabulary of protocol.md §1, typed a second time: kind, class, key, reserved.
func TestRegistry(t *testing.T) {
	require.Equal(t, []domain.KindSpec{
		{Kind: "user.message", Class: "edge", Key: "requestId"},
		{Kind: "assistant.message", Class: "owner", Key: "generationId"},
		{Kind: "tool.result", Class: "owner", Key: "toolCallId"},
		{Kind: "compaction", Class: "owner"},
		{Kind: "run.finished", Class: "owner"},
		{Kind: "run.started", Class: "owner", Reserved: true},
		{Kind: "run.failed", Class: "owner", Reserved: true},
		{Kind: "external.event", Class: "external", Key: "requestId"},
	}, domain.Kinds())
	domain.Kinds()[0].Class = "owner"
	require.Equal(t, domain.ClassEdge, domain.Kinds()[0].Class, "a caller cannot change the registry")
}

func TestKindIsAllowed(t *testing.T) {
	for _, s := range domain.Kinds() {
		got, err := domain.LookupKind(s.Kind)
		require.NoError(t, err)
		require.Equal(t, s, got)

		err = domain.EdgeWritable(s.Kind)
		if s.Kind == domain.UserMessage {
			require.NoError(t, err, "the only kind that a client may write")
		} else {
			require.ErrorIs(t, err, domain.ErrKindNotAllowed, s.Kind)
		}
	}
	for _, k := range []domain.Kind{"", "user.Message", "User.message", "user.message ", "run.settled", "user.message\x00"} {
		_, err := domain.LookupKind(k)
		require.ErrorIs(t, err, domain.ErrUnknownKind, k)
		require.ErrorIs(t, domain.EdgeWritable(k), domain.ErrUnknownKind, k)
	}
}

func TestErrors(t *testing.T) {
	err := domain.ErrInvalidPayload.At("text").With("must be a string")
	require.ErrorIs(t, err, domain.ErrInvalidPayload)
	require.NotErrorIs(t, err, domain.ErrInvalidKey)
	require.NotErrorIs(t, err, errors.New("invalid_payload"))
	require.EqualError(t, err, "invalid_payload (text): must be a string")
	require.EqualError(t, domain.ErrFenced.With(""), "fenced")
	require.Empty(t, domain.ErrInvalidPayload.Field, "a sentinel is not changed")
}
