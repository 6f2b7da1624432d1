// Package sse streams a session's ledger as Server-Sent Events (protocol.md §7).
//
// A committed event is a frame whose id is its seq and whose data is the event's JSON, the same bytes as in a
// snapshot. Token-level partials travel beside them without an id, may be dropped and are never replayed. A stream
// that cannot be written to for one write timeout is cut: its client resumes by cursor and loses nothing. When the
// process drains, every stream gets what is committed, then a drain frame, then ends.
package sse
