// Package domaintest holds what tests of the ledger's rules share: builders of payloads, a deliberately naive oracle of
// the folds, a World that carries out commands in memory and checks the invariants after each, and generators of
// histories for it. Production code never imports it.
package domaintest
