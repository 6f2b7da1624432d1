package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// peersVariable names the directory with the peers that npm brings; scripts/with-bench-peers.sh sets it.
const peersVariable = "KEEL_BENCH_PEERS"

// absent is the error of a peer that there is not, and stands in place of its figure.
type absent struct{ why string }

func (a absent) Error() string { return a.why }

// errNoPeers is the absence of all.
var errNoPeers = absent{"(-peers=false)"}

// npmPeer returns the only path of an npm package that a pattern matches.
func npmPeer(name, pattern string) (string, error) {
	dir := os.Getenv(peersVariable)
	if dir == "" {
		return "", absent{fmt.Sprintf("(%s is not installed: %s is not set)", name, peersVariable)}
	}
	found, err := filepath.Glob(filepath.Join(dir, "node_modules", filepath.FromSlash(pattern)))
	if err != nil || len(found) != 1 {
		return "", absent{fmt.Sprintf("(%s is not installed: npm has no package for this machine)", name)}
	}
	return found[0], nil
}

// absence returns why a peer that could not be opened is absent, and otherwise the error.
func absence(err error) (why string, other error) {
	if a := (absent{}); errors.As(err, &a) {
		return a.why, nil
	}
	return "", err
}
