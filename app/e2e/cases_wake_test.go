package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Inputs that arrive together are claimed at once: a claim that finds the session locked by the commit of an input must
// not leave its run to the next poll.
func TestInputsTogetherAreClaimedAtOnce(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		p := serve(t, store, nil, "--provider", "fake")
		var slowest time.Duration
		for s := range 12 {
			id := fmt.Sprint("s", s)
			p.create(fmt.Sprintf(`{"id":%q}`, id))
			began := time.Now()
			var together sync.WaitGroup
			for i := range 6 {
				together.Go(func() {
					a, err := p.try("POST", "/v1/sessions/"+id+"/input", fmt.Sprintf(`{"text":"x","requestId":"r%d"}`, i))
					if err != nil || a.status != http.StatusCreated {
						t.Error(a.body, err)
					}
				})
			}
			together.Wait()
			p.rested(id)
			slowest = max(slowest, time.Since(began))
		}
		require.Less(t, slowest, 3*time.Second, "a run waited for the poll")
		p.stop()
	})
}
