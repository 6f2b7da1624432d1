package sse_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
)

// What another process commits is there before the streams are woken, so that each is woken once.
func TestOneWakeUpForACommitElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		h := s.hub(t)
		var all []*seen
		for range 10 {
			c := follow(t, h, ref, 0)
			defer c.reader.Close()
			c.all()
			all = append(all, c)
		}
		for n := range domain.Seq(3) {
			s.commit(ref, 1, 10)
			s.wake(ref)
			synctest.Wait()
			for _, c := range all {
				<-c.reader.Wake()
				c.all()
				require.Equal(t, n+1, c.seq)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			for _, c := range all {
				require.Empty(t, c.reader.Wake(), "the sweep knows what all have")
			}
		}
	})
}

// A subscription is woken when it begins. Where the feed begins its readers say.
func TestAFeedBeginsWhereItsReadersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.commit(ref, 3, 10)
		s.onRead = func(after domain.Seq) { require.EqualValues(t, 3, after) }
		h := s.hub(t)
		c := follow(t, h, ref, 3)
		defer c.reader.Close()
		s.wake(ref)
		synctest.Wait()
		c.all()
		require.NotZero(t, s.reads.Load())
	})
}
