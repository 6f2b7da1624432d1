package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

// Enough commands in flight turn group commits on; few in flight do not turn them off, but many small groups in a row.
func TestCrowd(t *testing.T) {
	c := &crowd{crowdedAt: crowdedAt, sparseAt: sparseAt}
	for n := 1; n <= crowdedAt; n++ {
		if together := c.enter(); together != (n == crowdedAt) {
			t.Fatalf("together %t with %d in flight", together, n)
		}
	}
	for range crowdedAt {
		c.leave()
	}
	wants := func(together bool, why string) {
		t.Helper()
		if c.enter() != together {
			t.Errorf("together %t %s", !together, why)
		}
		c.leave()
	}
	small := func(n int) {
		for range n {
			c.grouped(sparseAt/laneCount - 1)
		}
	}
	wants(true, "when the crowd has only just gone")
	small(sparseGroups - 1)
	c.grouped(sparseAt / laneCount)
	small(sparseGroups - 1)
	wants(true, "though the small groups are not that many in a row")
	small(1)
	wants(false, "after small groups alone")
	for range crowdedAt {
		c.enter()
	}
	wants(true, "in a second crowd")
}

// A lane commits all that waits at once, within bounds, in the order of its arrival and without those that have left.
func TestGroupsAreBounded(t *testing.T) {
	waiting := func(n, bytes int) *lane {
		l := &lane{}
		payload := domaintest.User("r", strings.Repeat("x", bytes))
		for range n {
			l.waiting = append(l.waiting, &doing{ticket: &ticket{}, cmd: domain.SubmitInput{Payload: payload}})
		}
		return l
	}
	sizes := func(l *lane) (all []int) {
		order := slices.Clone(l.waiting)
		for group := l.next(); len(group) > 0; group = l.next() {
			all = append(all, len(group))
			if !slices.Equal(order[:len(group)], group) {
				t.Error("a group is not in order")
			}
			order = order[len(group):]
		}
		if l.busy || len(order) > 0 {
			t.Errorf("the lane rests with %d left, busy %t", len(order), l.busy)
		}
		return all
	}
	for _, c := range []struct {
		n, bytes int
		want     []int
	}{{1, 10, []int{1}}, {100, 10, []int{100}}, {2*maxBatch + 1, 10, []int{maxBatch, maxBatch, 1}}, {12, maxBatchBytes * 2 / 9, []int{5, 5, 2}}} {
		if got := sizes(waiting(c.n, c.bytes)); !slices.Equal(got, c.want) {
			t.Errorf("%d commands of %d bytes go in groups of %v, not %v", c.n, c.bytes, got, c.want)
		}
	}
	l := waiting(3, 10)
	if !l.waiting[1].ticket.take() {
		t.Fatal("it was taken before")
	}
	if n := len(l.next()); n != 2 {
		t.Errorf("%d commands of which one had left", n)
	}
}
