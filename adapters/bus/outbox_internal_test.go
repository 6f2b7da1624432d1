package bus

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

func TestOutboxIsBounded(t *testing.T) {
	w := NewWakeups()
	for i := range 3 * MaxWaiting {
		w.Committed(ports.Commit{Wake: domain.Wake{Owner: fmt.Sprint(i)}})
	}
	all := map[Digest]struct{}{Everyone: {}}
	require.Equal(t, all, w.Outbox().Take())
	require.Empty(t, w.Outbox().Take())
	w.Outbox().PutBack(map[Digest]struct{}{"x": {}})
	require.Equal(t, map[Digest]struct{}{"x": {}}, w.Outbox().Take())
	w.Outbox().PutBack(all)
	w.Outbox().PutBack(map[Digest]struct{}{"x": {}})
	require.Equal(t, all, w.Outbox().Take(), "everyone is enough")
}
