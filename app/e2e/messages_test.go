package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// transcript reads all pages of a session's messages in an order, each message as it came.
func (p *process) transcript(session, order string, limit int) (messages []string) {
	p.t.Helper()
	for query := ""; ; {
		a := p.call("GET", fmt.Sprintf("/v1/sessions/%s/messages?order=%s&limit=%d%s", session, order, limit, query), "")
		require.Equal(p.t, http.StatusOK, a.status, a.body)
		var page struct {
			Items      []json.RawMessage `json:"items"`
			NextCursor string            `json:"nextCursor"`
		}
		require.NoError(p.t, json.Unmarshal([]byte(a.body), &page))
		for _, m := range page.Items {
			messages = append(messages, string(m))
		}
		if query = "&cursor=" + page.NextCursor; page.NextCursor == "" {
			return messages
		}
		require.NotEmpty(p.t, page.Items)
	}
}

func TestMessagesNewestFirst(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil)
		require.Regexp(t, `set up.*"providers": \["fake"\]}`, p.logs.String(), "no model was chosen, and none is told")
		p.create(`{"id":"s1","tools":["calculator"]}`)
		script := `[{"toolCalls":[{"name":"calculator","arguments":{"expression":"1+1"}},{"name":"calculator","arguments":{"expression":"2+2"}}]},{"text":"done"}]`
		for i := range 12 {
			p.input("s1", fmt.Sprintf(`{"text":"n%d","selection":{"script":%s}}`, i, script))
			p.finished("s1", i+1)
		}
		all := p.transcript("s1", "asc", 500)
		require.Len(t, all, 36)
		for _, limit := range []int{1, 7, 500} {
			newest := p.transcript("s1", "desc", limit)
			slices.Reverse(newest)
			require.Equal(t, all, newest, limit)
		}
	})
}
