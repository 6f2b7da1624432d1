package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/keel-agent/keel/torture/plan"
)

// The short tier: what make torture does at length.
func TestServersBrokenUnderLoad(t *testing.T) {
	dir := t.TempDir()
	binary, err := build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := tierOf("short", 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			if testing.Short() {
				s.Cycles = (s.Cycles + 2) / 3
			}
			r := &rig{binary: binary, dir: dir, say: t.Logf}
			o, err := r.play(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			var report bytes.Buffer
			o.report(&report)
			t.Log(report.String())
			if len(o.violations) > 0 {
				t.Errorf("%d violations", len(o.violations))
			}
			o.worthIt(t)
		})
	}
}

// worthIt fails when the run was too quiet to show anything.
func (o *outcome) worthIt(t *testing.T) {
	t.Helper()
	faults, points := 0, 0
	for name, n := range o.did {
		if strings.Contains(name, ":") {
			points += n
		} else {
			faults += n
		}
	}
	if faults != o.Cycles || points < o.Cycles/8 {
		t.Errorf("%d of %d faults, %d of them at a point", faults, o.Cycles, points)
	}
	f := o.figures
	for what, n := range map[string]int{
		"answer": f.Answers, "result": f.Results, "replay": f.Replays, "guide": f.Guides, "frame": f.Frames,
		"reconnect": f.Connections - f.Sessions, "partial": f.Partials, "page": f.Pages, "probe": f.Probes, "execution": f.Effects,
	} {
		if n == 0 {
			t.Errorf("no %s in the run", what)
		}
	}
	if f.Inputs < 2*o.Cycles {
		t.Errorf("%d inputs for %d faults", f.Inputs, o.Cycles)
	}
}

func TestEveryFaultIsInTheLongTier(t *testing.T) {
	scenarios, err := tierOf("long", 1)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[plan.Fault]int{}
	for _, s := range scenarios {
		for i := range s.Cycles {
			counts[s.Faults[i%len(s.Faults)]]++
		}
	}
	for _, f := range plan.Faults {
		least := map[plan.Fault]int{plan.Kill: 250, plan.Point: 250, plan.Stop: 50, plan.Roll: 25, plan.Terminate: 25}
		if counts[f] < max(least[f], 5) {
			t.Errorf("%d of %s", counts[f], f)
		}
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for args, want := range map[string]string{
		"-faults burn":                    `unknown fault "burn"`,
		"-tier tall":                      `-tier "tall"`,
		"-store memory":                   `-store "memory"`,
		"-store sqlite -faults terminate": "is one of Postgres",
		"-cycles 0":                       "must be positive",
	} {
		err := run(strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
