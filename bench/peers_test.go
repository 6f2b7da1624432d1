package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestPeersOfNpm(t *testing.T) {
	const pattern = "@scope/peer-*/bin/peer"
	dir := t.TempDir()
	program := filepath.Join(dir, "node_modules", "@scope", "peer-here", "bin", "peer")
	for _, missing := range []struct{ dir, why string }{{"", peersVariable + " is not set"}, {dir, "no package for this machine"}} {
		t.Setenv(peersVariable, missing.dir)
		_, err := npmPeer("Peer", pattern)
		why, err := absence(err)
		if err != nil || !strings.Contains(why, "Peer is not installed") || !strings.Contains(why, missing.why) {
			t.Errorf("in %q: %q, error %v", missing.dir, why, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := npmPeer("Peer", pattern); found != program || err != nil {
		t.Errorf("found %q, error %v", found, err)
	}
}

// What is measured of a peer's rounds does not count the warming up.
func TestResidents(t *testing.T) {
	const mib = 1 << 20
	ours, theirs := resident{rounds: []float64{99 * mib, 20 * mib, 30 * mib, 40 * mib}}, resident{rounds: []float64{1, 100 * mib, 100 * mib, 400 * mib}}
	got := residents("memory", ours, theirs, "peer", atMost(0.25, "≤ 0.25 ×"))
	if want := (row{measure: "memory", ours: "30.0 MiB", limit: "peer 100.0 MiB", ratio: "0.20 ×", goal: "≤ 0.25 ×", met: "yes"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	bytes, err := residentBytes(os.Getpid())
	if runtime.GOOS == "linux" && (err != nil || bytes < mib || bytes > 1<<40) {
		t.Errorf("this process has %g bytes, error %v", bytes, err)
	}
}

func TestServedRunsAreWhole(t *testing.T) {
	var s servedRuns
	s.called.Store(2)
	s.played.Store(2)
	if err := s.check(); err != nil {
		t.Error(err)
	}
	s.played.Store(3)
	if s.check() == nil {
		t.Error("a run without a call of its tool passed")
	}
}
