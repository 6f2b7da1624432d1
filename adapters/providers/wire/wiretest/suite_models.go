package wiretest

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/ports"
)

// TestManyModels holds that of a very long list no more is read than says that it is too long. entry is a model's entry in the
// list of s, %d its number; before and after are what stands around the entries, and say that there is another page.
func TestManyModels(t *testing.T, s *Server, open Opener, before, entry, after string) {
	const many = 50_000
	var entries strings.Builder
	for i := range many {
		fmt.Fprintf(&entries, entry+",", i)
	}
	body := before + strings.TrimSuffix(entries.String(), ",") + after
	var asked atomic.Int64
	s.SetModelPages(func(*http.Request) string { asked.Add(1); return body })
	p, err := open(t, s.URL(), "", "")
	require.NoError(t, err)
	got, err := p.Models(t.Context(), ports.Confidential{})
	require.NoError(t, err)
	require.Len(t, got, ports.MaxModels+1)
	require.Equal(t, fmt.Sprintf("m%d", ports.MaxModels), got[ports.MaxModels].ID)
	require.Equal(t, int64(1), asked.Load())
}
