package postgres_test

import (
	"strings"
	"testing"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
	"github.com/keel-agent/keel/ports"
)

// K26, K40: texts that a database, a driver or a query builder could take for something else.
var awkward = map[string]string{
	"placeholders":   `? ?| ?& $1 $2::text :name @x %s {} \? ??`,
	"quotes":         `' '' " \ \\ \' -- /* */ ; E'\n' $$ $tag$`,
	"NUL":            "d\x00i\x00r\x00",
	"spelled NUL":    `\u0000 and \\u0000 and \x00`,
	"controls":       "\x01\x02\x1b\x1f\x7f\t\r\n",
	"noncharacters":  "\ufffe\uffff\ufffd\u2028\u2029\u00a0",
	"astral":         "😀\U0010ffff",
	"empty":          "",
	"looks quoted":   "\x01\"x\"",
	"mark alone":     "\x01",
	"byte order":     "\ufeff",
	"hundred kB":     strings.Repeat("0123456789", 10_000),
	"near the limit": strings.Repeat("\u20ac", 100_000),
}

func TestTextsComeBackUnchanged(t *testing.T) {
	url := migrated(t)
	for _, mode := range execModes {
		t.Run(mode, func(t *testing.T) {
			store := open(t, postgres.Config{URL: postgrestest.With(t, url, "default_query_exec_mode", mode)})
			for name, text := range awkward {
				t.Run(name, func(t *testing.T) { testText(t, store, mode+" "+name, text) })
			}
		})
	}
}

// testText puts text everywhere it may stand, and reads it back every way.
func testText(t *testing.T, store *postgres.Store, name, text string) {
	tenant := "tenant of " + name
	ref := domain.SessionRef{Tenant: tenant, Session: "session"}
	metadata := domaintest.Payload(`{` + domaintest.Quote("k"+text) + `:` + domaintest.Quote(text) + `,"deep":{"other":` + domaintest.Quote(text) + `}}`)
	create := domain.CreateSession{
		At: at, Request: metadata,
		Info: domain.SessionInfo{Title: text, Model: text, System: text, Tools: []string{text}, Metadata: metadata},
	}
	l := &ledger{t: t, store: store, ref: ref}
	l.must(create)
	if out := l.must(create); out.Created {
		t.Error("the retry of the creation was not recognised")
	}
	input := domain.SubmitInput{At: at, RequestID: "r", Payload: domaintest.User("r", text), NewRun: "run " + name}
	l.must(input)
	if out := l.must(input); out.Created || out.Event.Payload != input.Payload {
		t.Error("the retry of the input was not recognised")
	}
	l.claim("process " + name)
	settled := l.must(domain.Settle{At: at, Run: l.run, Token: l.token, Result: domain.Permanent, Error: text})

	if got := l.events()[0].Payload; got != input.Payload {
		t.Errorf("the payload came back as %q", got)
	}
	row, _, err := store.Sessions().Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := store.Sessions().List(t.Context(), ports.SessionQuery{
		Tenant: tenant, Limit: 10, Metadata: map[string]string{"k" + text: text},
	})
	if err != nil || len(listed) != 1 {
		t.Fatalf("%d sessions were found by their metadata, error %v", len(listed), err)
	}
	for _, s := range []domain.Session{row, listed[0]} {
		if s.Title != text || s.Model != text || s.System != text || s.Tools[0] != text || s.Metadata != metadata {
			t.Errorf("the session came back as %.200q", s.SessionInfo)
		}
	}
	none, err := store.Sessions().List(t.Context(), ports.SessionQuery{
		Tenant: tenant, Limit: 10, Metadata: map[string]string{"other": text},
	})
	if err != nil || len(none) != 0 {
		t.Errorf("%d sessions were found by a member that lies deeper, error %v", len(none), err)
	}
	run, err := store.Runs().Get(t.Context(), ref, l.run)
	if err != nil || run.Error != settled.Run.Error {
		t.Errorf("the run's error came back as %.200q, error %v", run.Error, err)
	}
}

// K39: the longest ids that the edge accepts, in every key at once.
func TestLongIDs(t *testing.T) {
	long := func(c string) string { return strings.Repeat(c, domain.MaxKeyLength) }
	bus := openBus(t)
	wake, cancel := bus.Subscribe(ports.Topic{Session: domain.SessionRef{Tenant: long("\u20ac"), Session: long("😀")}})
	defer cancel()
	<-wake
	store := open(t, postgres.Config{URL: migrated(t), Notifier: bus})
	l := created(t, store, domain.SessionRef{Tenant: long("\u20ac"), Session: long("😀")})
	id := long("\U0001f680")
	l.must(domain.SubmitInput{At: at, RequestID: id, Payload: domaintest.User(id, "x"), NewRun: "run"})
	l.claim(long("p"))
	call := long("\u754c")
	l.must(l.answer([]domain.Seq{1}, domaintest.Call{ID: call, Name: "tool"}))
	l.must(l.result(call))
	if n := len(l.events()); n != 3 {
		t.Fatalf("%d events", n)
	}
	<-wake
}

// Ids that no text column can hold name nothing; they are not a fault of the store.
func TestImpossibleIDs(t *testing.T) {
	store := open(t, postgres.Config{URL: migrated(t)})
	for _, bad := range []string{"a\x00b", "a\xffb"} {
		for _, ref := range []domain.SessionRef{{Tenant: bad, Session: "s"}, {Tenant: "t", Session: bad}} {
			l := &ledger{t: t, store: store, ref: ref}
			wantRefusal(t, second(store.Do(t.Context(), ref, l.input("r"))), domain.ErrNotFound)
			wantRefusal(t, second(store.Do(t.Context(), ref, domain.CreateSession{At: at})), domain.ErrInvalidRequest)
			wantRefusal(t, second(store.Events(t.Context(), ref, 0, 10)), domain.ErrNotFound)
			wantRefusal(t, second(store.Runs().List(t.Context(), ref, nil, 10)), domain.ErrNotFound)
			wantRefusal(t, second(store.Runs().OpenCalls(t.Context(), ref)), domain.ErrNotFound)
		}
		l := created(t, store, domain.SessionRef{Tenant: "t", Session: "of " + domaintest.Quote(bad)})
		wantRefusal(t, second(store.Runs().Get(t.Context(), l.ref, bad)), domain.ErrNotFound)
		cmd := domain.SubmitInput{At: at, RequestID: bad, Payload: domaintest.User("r", "x"), NewRun: "run"}
		wantRefusal(t, second(store.Do(t.Context(), l.ref, cmd)), domain.ErrInvalidKey)
		for _, q := range []ports.SessionQuery{
			{Tenant: bad}, {Tenant: "t", Parent: bad}, {Tenant: "t", Metadata: map[string]string{"k": bad}},
		} {
			q.Limit = 10
			if found, err := store.Sessions().List(t.Context(), q); err != nil || len(found) != 0 {
				t.Errorf("%+v: %d sessions, error %v", q, len(found), err)
			}
		}
	}
}
