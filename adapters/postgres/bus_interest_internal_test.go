package postgres

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keel-agent/keel/adapters/bus"
)

// What another process wants is forgotten unless it says it again.
func TestInterestLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInterest(interestLasts)
		want := func(a, b bool) {
			t.Helper()
			if i.Wanted("a") != a || i.Wanted("b") != b {
				t.Fatalf("wanted: %t %t", i.Wanted("a"), i.Wanted("b"))
			}
		}
		want(false, false)
		i.heard(slices.Values([]bus.Digest{"a", "b"}))
		time.Sleep(interestLasts - time.Second)
		want(true, true)
		i.heard(slices.Values([]bus.Digest{"b"}))
		time.Sleep(2 * time.Second)
		if want(false, true); len(i.others) != 1 {
			t.Fatal("what has passed is kept")
		}
		time.Sleep(interestLasts)
		i.heard(slices.Values([]bus.Digest{"a"}))
		if len(i.others) != 1 {
			t.Fatal("what has passed is kept")
		}
	})
}

// A process that does not listen wants nothing, and asks when it does.
func TestInterestOfTheDeaf(t *testing.T) {
	i := newInterest(interestLasts)
	i.Join("a")
	if say, asks := i.take(); len(say) > 0 || asks || len(i.filled) > 0 {
		t.Fatal("it says what it wants")
	}
	i.listens(true)
	i.Join("a")
	i.Join("b")
	i.Leave("b")
	say, asks := i.take()
	if len(say) != 1 || !asks || len(i.filled) != 1 {
		t.Fatalf("it says %v, asks %t", say, asks)
	}
	i.putBack(say, asks)
	if say, asks = i.take(); len(say) != 1 || !asks {
		t.Fatal("what was put back does not come again")
	}
}
