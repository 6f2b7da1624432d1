package domaintest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/keel-agent/keel/domain/domaintest"
)

// Any order of commands, with crashes, lost replies, repeated and wrong ones, keeps every invariant of World; and
// afterwards an honest process brings every run to its end.
func TestAnyHistoryKeepsTheInvariants(t *testing.T) {
	for name, opt := range map[string]domaintest.Options{
		"one session":  {Sessions: 1, Budget: 2, Clock: true},
		"many":         {Sessions: 4, External: true, Budget: 3, Clock: true, Propose: true},
		"without time": {Sessions: 2, External: true, Budget: 3},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				g := domaintest.NewGenerator(domaintest.Rapid(t), opt)
				for range rapid.IntRange(1, 120).Draw(t, "steps") {
					require.NoError(t, g.Step(), "%v", &g.History)
				}
				require.NoError(t, g.Finish(), "%v", &g.History)
			})
		})
	}
}

// The generator must come by what matters, or the test above proves nothing.
func TestHistoriesReachTheRareCases(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(150) {
		g := domaintest.NewGenerator(domaintest.Seeded(seed), domaintest.Options{Sessions: 2, External: true, Budget: 2, Clock: true, Propose: true})
		for range 150 {
			require.NoError(t, g.Step())
		}
		domaintest.Census(g.History, seen)
	}
	for _, rare := range domaintest.Cases {
		require.Positive(t, seen[rare], "no history has: %s (of %v)", rare, seen)
	}
}
