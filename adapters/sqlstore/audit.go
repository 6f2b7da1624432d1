package sqlstore

import (
	"errors"

	"github.com/keel-agent/keel/domain"
)

// StraysText selects, in order, the sessions that have events, runs or tool calls but no row. Its one parameter is how
// many at most.
const StraysText = "SELECT tenant_id, session_id FROM (SELECT DISTINCT tenant_id, session_id FROM events" +
	" UNION SELECT tenant_id, session_id FROM runs UNION SELECT tenant_id, session_id FROM tool_calls) AS k" +
	" WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.tenant_id = k.tenant_id AND s.session_id = k.session_id)" +
	" ORDER BY tenant_id, session_id LIMIT $1"

// errEnough ends a query whose reader wants no more.
var errEnough = errors.New("enough")

// EachRun returns a sequence of the runs that query reads: it scans row after row into the destinations and calls found
// after each, until found returns an error, which it returns.
func EachRun(query func(dests []any, found func() error) error) func(yield func(domain.Run, error) bool) {
	return func(yield func(domain.Run, error) bool) {
		var row RunRow
		err := query(Dests(nil, row.Fields()), func() error {
			run, err := row.Run()
			if err == nil && !yield(*run, nil) {
				err = errEnough
			}
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(domain.Run{}, err)
		}
	}
}
