package domain_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

func event() domain.Event {
	return domain.Event{
		Seq: 12, Kind: domain.UserMessage, Key: "requestId:r", Payload: domaintest.Payload(`{"text":"<b> & \u0000\u2028","n":1.0}`),
		CreatedAt: time.Date(2030, 1, 2, 3, 4, 5, 6789e3, time.FixedZone("", 7200)), RunID: "R1", Epoch: 3,
	}
}

// One event has the same bytes wherever it is shown; the store's bookkeeping is not among them.
func TestEventJSON(t *testing.T) {
	e := event()
	want := `{"seq":12,"kind":"user.message","payload":{"text":"<b> & \u0000` + "\u2028" + `","n":1.0},"createdAt":"2030-01-02T01:04:05.006Z"}`
	require.Equal(t, want, string(e.AppendJSON(nil)))
	require.Equal(t, "data: "+want, string(e.AppendJSON([]byte("data: "))))
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(e))
	require.JSONEq(t, want, b.String())
	require.Contains(t, b.String(), `"n":1.0`)
}

func TestMillis(t *testing.T) {
	require.Equal(t, time.Date(2030, 1, 2, 1, 4, 5, 6e6, time.UTC), domain.Millis(event().CreatedAt))
}

// The chain's form is for ever: another hash of the same event would break every stored ledger.
func TestNextHash(t *testing.T) {
	h := domain.NextHash(domain.Hash{}, event())
	require.Equal(t, "150abcc0cdb65897ccf7edd76d7e4c348e064d912427fa1474e48c5408e5faa7", hex.EncodeToString(h[:]))
	for name, change := range map[string]func(*domain.Event){
		"seq":     func(e *domain.Event) { e.Seq++ },
		"kind":    func(e *domain.Event) { e.Kind = domain.ToolResult },
		"key":     func(e *domain.Event) { e.Key = "" },
		"payload": func(e *domain.Event) { e.Payload = domaintest.Payload(`{"text":"<b> & \u0000\u2028","n":1}`) },
		"time":    func(e *domain.Event) { e.CreatedAt = e.CreatedAt.Add(time.Millisecond) },
		"border":  func(e *domain.Event) { e.Kind, e.Key = e.Kind+"r", e.Key[1:] },
	} {
		e := event()
		change(&e)
		require.NotEqual(t, h, domain.NextHash(domain.Hash{}, e), name)
	}
	require.NotEqual(t, h, domain.NextHash(domain.Hash{1}, event()))
	e := event()
	e.RunID, e.Epoch, e.Hash, e.CreatedAt = "", 0, domain.Hash{9}, domain.Millis(e.CreatedAt)
	require.Equal(t, h, domain.NextHash(domain.Hash{}, e), "bookkeeping, the zone and microseconds do not count")
}

// K15: keys of different kinds never collide in the one column that holds them.
func TestDedupeKey(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []domain.KeyName{domain.RequestID, domain.GenerationID, domain.ToolCallID} {
		for _, value := range []string{"call_0", "toolCallId:call_0", "generationId:x", "x"} {
			key, err := domain.DedupeKey(name, value)
			require.NoError(t, err)
			require.Equal(t, string(name)+":"+value, key)
			require.False(t, seen[key], key)
			seen[key] = true
		}
	}
}

func TestCheckID(t *testing.T) {
	for id, want := range map[string]error{
		"a": nil, "a b": nil, "日本語 ü": nil, "019e-0000": nil, "👩‍👩‍👧": domain.ErrInvalidRequest, "\ufffd": nil,
		strings.Repeat("x", 200): nil, strings.Repeat("é", 200): nil, strings.Repeat("x", 201): domain.ErrInvalidRequest,
		"": domain.ErrInvalidRequest, " ": domain.ErrInvalidRequest, " a": domain.ErrInvalidRequest,
		"a ":    domain.ErrInvalidRequest,
		"a\x00": domain.ErrInvalidRequest, "a\tb": domain.ErrInvalidRequest, "a\u0085": domain.ErrInvalidRequest,
		"\xff": domain.ErrInvalidRequest, "a\u2028b": domain.ErrInvalidRequest, "\u200b": domain.ErrInvalidRequest,
	} {
		err := domain.CheckID(id)
		require.ErrorIs(t, err, want, "%q", id)
		_, err = domain.DedupeKey(domain.RequestID, id)
		if want != nil {
			want = domain.ErrInvalidKey
		}
		require.ErrorIs(t, err, want, "%q", id)
	}
}
