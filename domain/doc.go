// Package domain is the core of Keel: the rules of an append-only event ledger per session, without I/O, clock,
// randomness or logging. Its invariants:
//
//   - The ledger is the only durable contract. Everything else is a projection: Fold (what waits, what is owed),
//     Transcript (what models and people read), run.finished summaries, every screen.
//   - The kind of an event decides who may write it, which one idempotency key it carries and what its payload must
//     look like. The registry in kind.go is the only list of kinds.
//   - Decide is the only place where a command becomes effects. Stores load a View, call Decide and apply the Effects
//     atomically under the session row's version; they decide nothing.
//   - seq is per session, from 1, without gaps. An event carries the hash of all before it.
//   - An owner's commit carries a lease token, owner and epoch, compared for equality. Each claim raises the epoch and
//     whatever ends an attempt clears the owner, so no older token ever writes again.
//   - No accepted input is dropped: an input is answered when a completed answer lists it in inputSeqs, and until then
//     it stays in Fold.Unanswered, which settlement and claims go by.
//   - Committed tool calls get exactly one result, a stand-in when the real one will never come.
package domain
