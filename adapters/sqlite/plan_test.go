package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
)

// Every hot statement goes by an index, so that its cost does not grow with the tables.
func TestHotStatementsGoByIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keel.db")
	if _, err := Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, text := range []string{
		sessionText, keyText, keyKnownText, callText, openText, beforeText, liveText, eventsText, knownText, tenantText, queueText, ownedText, cancelledText,
		orphansText, updateSession, patchSession, updateRun,
	} {
		pages := text == eventsText || text == tenantText || text == queueText // read as far as their limit
		for _, step := range plan(t, s, text) {
			scans := strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "INDEX runs_by_owner") // only running runs
			sorts := strings.HasPrefix(step, "USE TEMP B-TREE FOR ORDER BY") && pages
			if scans || sorts {
				t.Errorf("%s\nin: %s", step, text)
			}
		}
	}
}

// plan returns the steps of a statement.
func plan(t *testing.T, s *Store, text string) (steps []string) {
	t.Helper()
	rows, err := s.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, make([]any, strings.Count(text, "?"))...)
	if err != nil {
		t.Fatalf("%v\nin: %s", err, text)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
