package sqlstore

import "github.com/keel-agent/keel/domain"

// ForsakenText returns the query behind ports.Runs.Forsaken. Its parameters are, by the given names: the tenant and the
// session of the parent, both null for every parent, and the limit.
func ForsakenText(tenant, session, limit string) string {
	return "SELECT r.tenant_id, r.session_id, r.run_id FROM runs AS r" +
		" JOIN sessions AS s ON s.tenant_id = r.tenant_id AND s.session_id = r.session_id" +
		" JOIN runs AS p ON p.run_id = s.parent_run AND p.tenant_id = s.tenant_id AND p.session_id = s.parent_session" +
		" WHERE r.status IN ('pending', 'running') AND r.cancel_seq IS NULL AND p.cancel_seq IS NOT NULL" +
		" AND (p.settled_at IS NULL OR r.created_at <= p.settled_at)" +
		" AND (" + session + " IS NULL OR s.tenant_id = " + tenant + " AND s.parent_session = " + session + ")" +
		" ORDER BY r.run_id LIMIT " + limit
}

// NullRef returns the columns of ref, nil for the zero one.
func NullRef(ref domain.SessionRef) (tenant, session *string) {
	if ref == (domain.SessionRef{}) {
		return nil, nil
	}
	return &ref.Tenant, &ref.Session
}
