// Package postgres is the production store: ledger, queue, process leases and wake-ups in one Postgres database.
//
// A command is one read and one write. The view comes from a single statement, domain.Decide decides without a lock,
// and a single statement guarded by the session's version writes all effects or none. Of the sessions that a process
// runs it knows the view already. Only a session that many write to at once is locked. When many commands are in flight
// they commit in groups. No rule of the ledger stands in SQL.
package postgres
