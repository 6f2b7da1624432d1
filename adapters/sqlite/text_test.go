package sqlite_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// at is when all commands of the tests are given.
var at = domain.Millis(time.Date(2030, 1, 2, 3, 4, 5, 678e6, time.UTC))

// K26, K40: texts that a database, a driver or a query builder could take for something else.
func TestTextsComeBackUnchanged(t *testing.T) {
	store := open(t, sqlite.Config{Path: migrated(t)})
	for name, text := range map[string]string{
		"placeholders": `? ?| ?1 $1 $2::text :name @x %s {} \? ??`,
		"quotes":       `' '' " \ \\ \' -- /* */ ;`,
		"NUL":          "d\x00i\x00r\x00",
		"spelled NUL":  `\u0000 and \\u0000`,
		"controls":     "\x01\x02\x1b\x7f\t\r\n",
		"plain":        "\ufffe\uffff\ufffd\u2028😀\U0010ffff",
		"empty":        "",
		"looks quoted": "\x01\"x\"",
		"hundred kB":   strings.Repeat("0123456789", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			ref := domain.SessionRef{Tenant: "tenant of " + name, Session: "s"}
			metadata := domaintest.Payload(`{` + domaintest.Quote("k"+text) + `:` + domaintest.Quote(text) + `}`)
			create := domain.CreateSession{At: at, Request: metadata, Info: domain.SessionInfo{Title: text, System: text, Metadata: metadata}}
			input := domain.SubmitInput{At: at, RequestID: "r", Payload: domaintest.User("r", text), NewRun: "run of " + name}
			for _, cmd := range []domain.Command{create, create, input, input} {
				if _, err := store.Do(t.Context(), ref, cmd); err != nil {
					t.Fatal(err)
				}
			}
			events, err := store.Events(t.Context(), ref, 0, 10)
			if err != nil || len(events) != 1 || events[0].Payload != input.Payload {
				t.Errorf("events %.200v, error %v", events, err)
			}
			found, err := store.Sessions().List(t.Context(), ports.SessionQuery{
				Tenant: ref.Tenant, Limit: 10, Metadata: map[string]string{"k" + text: text},
			})
			if err != nil || len(found) != 1 {
				t.Fatalf("%d sessions were found by their metadata, error %v", len(found), err)
			}
			if s := found[0]; s.Title != text || s.System != text || s.Metadata != metadata {
				t.Errorf("the session came back as %.200q", s.SessionInfo)
			}
		})
	}
}

// K38: readers beside many writers see complete prefixes.
func TestReadersSeeCompletePrefixes(t *testing.T) {
	store := open(t, sqlite.Config{Path: migrated(t)})
	ref := domain.SessionRef{Tenant: "t", Session: "s"}
	if _, err := store.Do(t.Context(), ref, domain.CreateSession{At: at}); err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 25
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				id := string(rune('a'+w)) + string(rune('a'+i))
				cmd := domain.SubmitInput{At: at, RequestID: id, Payload: domaintest.User(id, id), NewRun: "run-" + id}
				if _, err := store.Do(t.Context(), ref, cmd); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for r := range 3 {
		group.Go(func() {
			var hash domain.Hash
			for seen := 0; seen < writers*each; {
				page, err := store.Events(t.Context(), ref, domain.Seq(seen), 1+r*7)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range page {
					seen++
					if hash = domain.NextHash(hash, e); e.Seq != domain.Seq(seen) || e.Hash != hash {
						t.Errorf("seq %d at position %d", e.Seq, seen)
						return
					}
				}
			}
		})
	}
	group.Wait()
}
