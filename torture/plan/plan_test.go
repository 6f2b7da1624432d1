package plan

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func printed(t *testing.T, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := New(o).Print(&b, 3, 50); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheSeedDecidesAll(t *testing.T) {
	o := Options{Seed: 7, Servers: 3, Cycles: 100, Faults: Faults, Lease: time.Second}
	first := printed(t, o)
	if again := printed(t, o); again != first {
		t.Error("the same seed gave another schedule")
	}
	o.Seed = 8
	other := printed(t, o)
	for i, line := range strings.Split(first, "\n") {
		if !strings.HasPrefix(line, "lane") && strings.Contains(line, "[do:") && strings.Contains(other, line) {
			t.Errorf("line %d is in the schedule of another seed: %s", i, line)
		}
	}
	if first == other {
		t.Error("another seed gave the same schedule")
	}
}

// What a client does depends neither on the faults nor on how many others there are.
func TestScriptsStandAlone(t *testing.T) {
	draw := func(client, writer int) string {
		s := NewScript(7, client, writer)
		var b strings.Builder
		for range 80 {
			b.WriteString(s.Next().String() + "\n")
		}
		return b.String()
	}
	first := draw(1, 0)
	if again := draw(1, 0); again != first || first == draw(2, 0) || first == draw(1, 1) {
		t.Error("the scripts are not those of their clients")
	}
	if n := strings.Count(draw(1, 0), string(Move)); n != 2 {
		t.Errorf("the first writer moves %d times in 80 steps", n)
	}
	if strings.Contains(draw(1, 1), string(Move)) {
		t.Error("the second writer moves, too")
	}
	for _, op := range []Op{Input, Again, Cancel, Ensure, Page} {
		if !strings.Contains(draw(1, 1), string(op)) {
			t.Errorf("80 steps without %s", op)
		}
	}
}

func TestLanes(t *testing.T) {
	p := New(Options{Seed: 1, Servers: 3, Cycles: 70, Faults: Faults, Lease: time.Second})
	counts := map[Fault]int{}
	for _, lane := range p.Lanes {
		for _, a := range lane {
			counts[a.Fault]++
			if a.Fault == Stop && a.Hold <= time.Second {
				t.Errorf("%s: within the lease", a)
			}
			if a.Slot != lane[0].Slot && a.Fault != Term {
				t.Errorf("%s: in a lane of server %d", a, lane[0].Slot)
			}
		}
	}
	for _, f := range []Fault{Kill, Point, Stop, Terminate, Restart} {
		if counts[f] != 10 {
			t.Errorf("%d of %s", counts[f], f)
		}
	}
	if counts[Term] != 10+10*3 {
		t.Errorf("%d SIGTERMs for 10 terms and 10 rolls of 3", counts[Term])
	}
}

func TestAllPointsAreDealt(t *testing.T) {
	p := New(Options{Seed: 1, Servers: 3, Cycles: len(points), Faults: []Fault{Point}, Lease: time.Second})
	dealt := map[string]bool{}
	for _, lane := range p.Lanes {
		for _, a := range lane {
			dealt[a.Point[:strings.LastIndexByte(a.Point, ':')]] = true
		}
	}
	if len(dealt) != len(points) {
		t.Errorf("%d of %d points", len(dealt), len(points))
	}
}
