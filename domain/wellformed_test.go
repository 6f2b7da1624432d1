package domain_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// checkPrefixes builds a transcript event by event and checks the context after each of them.
func checkPrefixes(t *testing.T, events []domain.Event) {
	t.Helper()
	tr := domain.NewTranscript()
	for i, e := range events {
		require.NoError(t, tr.Apply(e))
		messages := tr.Context(tr.Present(e.Seq, nil))
		checkWellFormed(t, messages)
		require.Equal(t, fresh(t, events[:i+1]), messages, "the incremental context differs from one built at once")
		fold, err := domain.FoldEvents(events[:i+1], 0)
		require.NoError(t, err)
		require.NoError(t, domaintest.SameFold(tr.Fold, fold))
	}
}

// fresh is the context of a transcript that was never asked before.
func fresh(t *testing.T, events []domain.Event) []domain.Message {
	t.Helper()
	tr := domain.NewTranscript()
	for _, e := range events {
		require.NoError(t, tr.Apply(e))
	}
	return tr.Context(tr.Present(events[len(events)-1].Seq, nil))
}

// checkWellFormed demands what the strictest backend demands of a context.
func checkWellFormed(t *testing.T, messages []domain.Message) {
	t.Helper()
	var open []string
	for i, m := range messages {
		require.NotEmpty(t, m.Content, "message %d is empty", i)
		for _, b := range m.Content {
			signed := m.Role == domain.RoleAssistant && b.Signature != ""
			require.False(t, b.Type == domain.TextBlock && strings.TrimSpace(b.Text) == "" && !signed, "message %d has a blank block", i)
			allowed := []domain.BlockType{domain.TextBlock, domain.ImageBlock}
			if m.Role == domain.RoleAssistant {
				allowed = append(allowed, domain.ThinkingBlock, domain.CallBlock)
			}
			require.Contains(t, allowed, b.Type, "message %d of %s", i, m.Role)
		}
		if i > 0 && m.Role != domain.RoleTool {
			require.NotEqual(t, messages[i-1].Role, m.Role, "messages %d and %d", i-1, i)
		}
		if m.Role == domain.RoleTool {
			require.NotEmpty(t, open, "message %d is a result without a call", i)
			require.Equal(t, open[0], m.CallID, "message %d is not the next result", i)
			open = open[1:]
			continue
		}
		require.Empty(t, open, "message %d stands between a call and its result", i)
		if i == 0 {
			require.Equal(t, domain.RoleUser, m.Role, "the first message")
		}
		open = domain.Assistant{Content: m.Content}.CallIDs()
	}
	require.Empty(t, open, "calls without results")
}

// piece is one block of a context with what its message says of it.
type piece struct {
	message domain.Message // without content
	block   domain.Block
}

func flattened(messages []domain.Message) []piece {
	var all []piece
	for _, m := range messages {
		bare := m
		bare.Content = nil
		for _, b := range m.Content {
			all = append(all, piece{bare, b})
		}
	}
	return all
}

func beginsWith(all, beginning []piece) bool {
	return len(all) >= len(beginning) && slices.EqualFunc(all[:len(beginning)], beginning, func(a, b piece) bool {
		return reflect.DeepEqual(a, b)
	})
}
