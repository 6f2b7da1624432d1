package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/domain"
)

// The same request comes to two processes in the same millisecond, and one of them loses its connection while it writes.
// Both events would have one hash. That process answers with the run that there is, not with the one it would have made.
func TestTwinOfALostWrite(t *testing.T) {
	u := migrated(t)
	postgrestest.Exec(t, u, "CREATE SEQUENCE cuts",
		`CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN
				IF current_setting('application_name') = 'cut' AND nextval('cuts') > 0 THEN RAISE EXCEPTION 'cut off' USING ERRCODE = '57P01'; END IF;
				RETURN NEW;
			END $$`,
		"CREATE TRIGGER cut BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION cut()",
	)
	cut := open(t, postgres.Config{URL: postgrestest.With(t, u, "application_name", "cut"), MaxConns: 2})
	whole := created(t, open(t, postgres.Config{URL: u, MaxConns: 2}), domain.SessionRef{Tenant: "t", Session: "s"})
	mine, theirs := whole.input("q"), whole.input("q")
	mine.NewRun = "never made"
	conn, err := pgx.Connect(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	type answer struct {
		out domain.Outcome
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		out, err := cut.Do(t.Context(), whole.ref, mine)
		answered <- answer{out, err}
	}()
	for lost := false; !lost; {
		if err := conn.QueryRow(t.Context(), "SELECT is_called FROM cuts").Scan(&lost); err != nil {
			t.Fatal(err)
		}
	}
	want := whole.must(theirs)
	got := <-answered
	if got.err != nil {
		t.Fatal(got.err)
	}
	if got.out.Event.RunID != want.Run.ID || got.out.Run == nil || got.out.Run.ID != want.Run.ID || got.out.Created {
		t.Errorf("event %+v, run %+v, created %v; the run is %s", got.out.Event, got.out.Run, got.out.Created, want.Run.ID)
	}
}
