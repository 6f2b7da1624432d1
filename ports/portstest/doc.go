// Package portstest holds one conformance suite per port. Every adapter of a port runs its suite from its own tests;
// a suite states the port's contract as code. Production code never imports it.
//
// A store runs TestStore, which also compares its answers with the scripted and the generated histories whose
// transcripts lie in testdata. They were written by the reference implementation and every store reproduces them byte
// for byte.
package portstest
