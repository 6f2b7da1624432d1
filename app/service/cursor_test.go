package service

import (
	"encoding/base64"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

func TestCursorOfTheOtherOrder(t *testing.T) {
	newest := position{List: newestList, Head: 3, Next: 2}.encode()
	_, err := decodePosition(newest, newestList)
	require.NoError(t, err)
	_, err = decodePosition(newest, messagesList)
	require.ErrorIs(t, err, domain.ErrInvalidCursor)
	require.ErrorContains(t, err, "other order", "order was left out beside a cursor of order=desc")
	_, err = decodePosition("zzz", newestList)
	require.ErrorContains(t, err, "malformed")
}

// FuzzCursor: whatever a client sends is either a cursor that this code made, or refused.
func FuzzCursor(f *testing.F) {
	lists := []string{sessionsList, runsList, messagesList}
	for _, list := range lists {
		f.Add(position{List: list, CreatedAtMS: 1767322800000, ID: "s", Head: 3, Next: 2, Skip: 7, Turn: []domain.Seq{1}, Waiting: []domain.Seq{2, 3}}.encode())
	}
	for _, text := range []string{
		"", "null", "{}", `{"v":1,"l":"sessions","t":1,"id":"a\u0000"}`, `{"v":1,"l":"sessions","t":1}`, `{"v":2,"l":"runs","t":1,"id":"r"}`,
		`{"v":1,"l":"runs","t":1,"id":"r","x":1}`, `{"V":1,"l":"runs","t":1,"id":"r"}`, `{"v":1,"l":"messages","h":-1,"k":-5}`, `{"v":1,"l":"runs","t":1e3,"id":"r"}`,
	} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	f.Add("not base64!")
	f.Add("QQ==")
	f.Fuzz(func(t *testing.T, cursor string) {
		taken := 0
		for _, list := range lists {
			p, err := decodePosition(cursor, list)
			if err != nil {
				if !errors.Is(err, domain.ErrInvalidCursor) {
					t.Fatalf("%q: %v", cursor, err)
				}
				continue
			}
			taken++
			if p.encode() != cursor {
				t.Fatalf("%q comes back as %q", cursor, p.encode())
			}
			if list != messagesList && domain.CheckID(p.ID) != nil {
				t.Fatalf("%q names the id %q", cursor, p.ID)
			}
		}
		if taken > 1 {
			t.Fatalf("%q is a cursor of %d lists", cursor, taken)
		}
	})
}
