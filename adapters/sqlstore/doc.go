// Package sqlstore is what the SQLite and the Postgres store share: the rows and their conversion to domain values, the
// schema and its migrations, the list queries, and the hub of wake-ups within one process.
//
// It holds no rule of the ledger: domain.Decide decides, a store loads and applies.
package sqlstore
