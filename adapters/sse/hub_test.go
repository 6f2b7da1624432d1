package sse_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Whatever clients do while events come in by any way, each sees every event exactly once.
func TestClientsThatDropAndResume(t *testing.T) {
	clients, events := 200, domain.Seq(10_000)
	if testing.Short() {
		clients, events = 50, 2000
	}
	s := newStore()
	h := s.hub(t)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for at := domain.Seq(0); at < events && !t.Failed(); {
				c := follow(t, h, ref, at)
				for drop := rand.IntN(50); drop > 0 && c.seq < events; drop-- {
					if c.next() == 0 {
						<-c.reader.Wake()
					}
				}
				c.reader.Close()
				at = c.seq
			}
		})
	}
	all.Go(func() {
		var late []ports.Commit
		for n := domain.Seq(0); n < events; {
			c := s.commit(ref, int(min(domain.Seq(1+rand.IntN(3)), events-n)), rand.IntN(100))
			n = c.Events[len(c.Events)-1].Seq
			switch rand.IntN(20) {
			case 0: // of another process
				s.wake(ref)
			case 1: // told after those that follow
				late = append(late, c)
				continue
			default:
				h.Committed(c)
			}
			for _, c := range late {
				h.Committed(c)
			}
			late = nil
			if n%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		s.wake(ref)
	})
	all.Wait()
	require.Zero(t, s.subscribed())
}

func TestNothingIsLeftBehind(t *testing.T) {
	s := newStore()
	h := s.hub(t)
	before := runtime.NumGoroutine()
	sessions := []domain.SessionRef{{Tenant: "t", Session: "a"}, {Tenant: "t", Session: "b"}, {Tenant: "u", Session: "a"}}
	var all sync.WaitGroup
	for worker := range 10 {
		all.Go(func() {
			for i := range 100 {
				of := sessions[(worker+i)%len(sessions)]
				c := follow(t, h, of, 0)
				h.Committed(s.commit(of, 1, 10))
				c.all()
				c.reader.Close()
				c.reader.Close()
			}
		})
	}
	all.Wait()
	require.Zero(t, s.subscribed())
	for wait := time.Now(); runtime.NumGoroutine() > before && time.Since(wait) < time.Second; {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
	_, err := h.Open(t.Context(), ref, 7)
	require.ErrorIs(t, err, domain.ErrCursorAhead)
	require.Zero(t, s.subscribed())
}

// Neither a reader that stopped nor one whose own read of the ledger hangs delays another.
func TestReadersAreIndependent(t *testing.T) {
	s := newStore()
	h := s.hub(t)
	h.Committed(s.commit(ref, 2000, 10))
	stopped, live := follow(t, h, ref, 0), follow(t, h, ref, 2000)
	defer stopped.reader.Close()
	defer live.reader.Close()
	live.all()
	hangs := make(chan struct{})
	reading := make(chan struct{})
	s.onRead = func(after domain.Seq) {
		if after == 1000 {
			close(reading)
			<-hangs
		}
	}
	hanging := follow(t, h, ref, 1000)
	defer hanging.reader.Close()
	var over sync.WaitGroup
	over.Go(func() { hanging.until(3000) })
	<-reading
	for n := range domain.Seq(1000) {
		h.Committed(s.commit(ref, 1, 1000))
		live.all()
		require.Equal(t, 2001+n, live.seq, "at once")
	}
	close(hangs)
	over.Wait()
	stopped.until(3000)
}

func TestReadsOfTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		h := s.hub(t)
		s.commit(ref, 3, 10)
		const readers = 50
		var all []*seen
		var over sync.WaitGroup
		for range readers {
			c := follow(t, h, ref, 3)
			all = append(all, c)
			over.Go(func() { c.until(1100) })
		}
		synctest.Wait()
		require.EqualValues(t, 1, s.reads.Load(), "the first look")
		for range 1000 {
			h.Committed(s.commit(ref, 1, 10))
			synctest.Wait()
		}
		require.EqualValues(t, 1, s.reads.Load(), "what this process commits is not read")
		for n := range 10 {
			s.commit(ref, 5, 10)
			s.wake(ref)
			synctest.Wait()
			require.EqualValues(t, 2+n, s.reads.Load(), "one look for all streams")
		}
		require.EqualValues(t, 1, s.subscribed(), "one subscription for all streams")

		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 11, s.reads.Load(), "an idle stream reads nothing")
		require.EqualValues(t, 12, s.looks.Load(), "one look at the heads each five seconds")
		require.EqualValues(t, 12, s.refs.Load())

		s.commit(ref, 7, 10) // and nobody tells
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 12, s.reads.Load())
		for _, c := range all {
			require.EqualValues(t, 1060, c.seq, "the sweep finds it")
		}

		first, second, third := s.commit(ref, 2, 10), s.commit(ref, 1, 10), s.commit(ref, 37, 10)
		for _, c := range []ports.Commit{third, first, second, first, third} {
			h.Committed(c)
		}
		over.Wait()
		require.LessOrEqual(t, s.reads.Load(), int64(13))
		for _, c := range all {
			c.reader.Close()
		}
	})
}

// An event is made a frame once for all streams, whether it was committed here or found in the ledger.
func TestFramesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		h := s.hub(t)
		var readers []sse.Reader
		for range 3 {
			c := follow(t, h, ref, 0)
			defer c.reader.Close()
			readers = append(readers, c.reader)
			c.all()
		}
		shared := func(want int) {
			t.Helper()
			var first []sse.Frame
			for i, r := range readers {
				frames, err := r.Next(t.Context())
				require.NoError(t, err)
				require.Len(t, frames, want)
				if i == 0 {
					first = slices.Clone(frames)
				}
				for n, f := range frames {
					require.Same(t, &first[n].Bytes[0], &f.Bytes[0])
				}
				frames, err = r.Next(t.Context())
				require.NoError(t, err)
				require.Empty(t, frames)
			}
		}
		h.Committed(s.commit(ref, 3, 10))
		shared(3)
		s.commit(ref, 2, 10) // in another process
		s.wake(ref)
		synctest.Wait()
		shared(2)
	})
}

// While the store is out of reach, one stream finds out for all of them.
func TestOneLookFailsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		h := s.hub(t)
		const readers = 50
		var over sync.WaitGroup
		for range readers {
			c := follow(t, h, ref, 0)
			c.all()
			over.Go(func() {
				defer c.reader.Close()
				for c.seq < 2 {
					<-c.reader.Wake()
					frames, err := c.reader.Next(t.Context())
					for err == nil && len(frames) > 0 {
						c.seq = frames[len(frames)-1].Seq
						frames, err = c.reader.Next(t.Context())
					}
					if err != nil {
						require.ErrorIs(t, err, ports.ErrUnavailable)
					}
				}
			})
		}
		synctest.Wait()
		s.reads.Store(0)
		s.fail(ports.ErrUnavailable)
		s.commit(ref, 2, 10)
		s.wake(ref)
		synctest.Wait()
		require.EqualValues(t, 1, s.reads.Load())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 3, s.reads.Load(), "each sweep is a reason to look again")
		s.fail(nil)
		over.Wait()
	})
}

// A page in flight may not hide what came while it was read, nor the drain's last look what was committed before it.
func TestLastLook(t *testing.T) {
	s := newStore()
	h := s.hub(t)
	first, second := follow(t, h, ref, 0), follow(t, h, ref, 0)
	defer first.reader.Close()
	defer second.reader.Close()
	first.all()
	second.all()
	for n := domain.Seq(1); n < 10; n++ {
		late := sync.OnceFunc(func() { s.commit(ref, 1, 10) })
		s.onRead = func(domain.Seq) { late() }
		first.reader.LastLook()
		first.all()
		second.reader.LastLook()
		second.all()
		require.Equal(t, n, second.seq)
	}
	s.onRead = nil
	h.Committed(s.commit(ref, 1, 10))
	require.Equal(t, 1, second.next())
	s.commit(ref, 1, 10)
	second.reader.LastLook()
	require.Equal(t, 1, second.next(), "in the midst of its reading too")
}

// What a feed and its readers hold follows neither the number of events nor that of the readers.
func TestMemoryIsBounded(t *testing.T) {
	const mib = 1 << 20
	inUse := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	s := newStore()
	h := sse.NewHub(sse.HubConfig{Cursors: s, Ledger: s, Wakeups: s, Sweep: 20 * time.Millisecond})
	defer h.Close()
	live := follow(t, h, ref, 0)
	defer live.reader.Close()
	for range 300 {
		h.Committed(s.commit(ref, 1, 10))
		live.all()
	}
	s.commit(ref, 20, mib)
	before := inUse()
	s.mu.Lock()
	told := s.events[ref][300:]
	s.mu.Unlock()
	for i := range told {
		h.Committed(ports.Commit{Ref: ref, Events: told[i : i+1]})
		live.all()
	}
	require.EqualValues(t, 320, live.seq)
	require.Less(t, inUse()-before, 4*mib, "the feed")
	require.Eventually(t, func() bool { return inUse()-before < mib/2 }, 2*time.Second, 50*time.Millisecond, "what all streams have goes")

	var slow []*seen
	for range 4 {
		c := follow(t, h, ref, 300)
		defer c.reader.Close()
		require.Equal(t, 1, c.next())
		slow = append(slow, c)
	}
	// The payloads of the page belong to the store here, so this counts frames alone.
	require.Less(t, inUse()-before, len(slow)*mib*3/2, "a slow stream holds the piece that it sends")
	for _, c := range slow {
		c.until(320)
	}
	require.Eventually(t, func() bool { return inUse()-before < mib }, 2*time.Second, 50*time.Millisecond)
}

// Catching up takes small events in large pieces and large events in small ones.
func TestPieces(t *testing.T) {
	for _, c := range []struct{ events, size, pieces int }{{4000, 10, 20}, {100, 100 << 10, 40}, {5, 2 << 20, 5}} {
		s := newStore()
		h := s.hub(t)
		s.commit(ref, c.events, c.size)
		for _, alone := range []bool{true, false} { // through the feed, or from the reader's own cursor
			other := follow(t, h, ref, domain.Seq(c.events))
			if !alone {
				other.all()
			}
			r := follow(t, h, ref, 0)
			pieces := 0
			for ; ; pieces++ {
				frames, err := r.reader.Next(t.Context())
				require.NoError(t, err)
				if len(frames) == 0 {
					break
				}
				bytes := 0
				for _, f := range frames {
					require.Equal(t, r.seq+1, f.Seq)
					r.seq, bytes = f.Seq, bytes+len(f.Bytes)
				}
				require.Less(t, bytes, 256<<10+c.size+200)
			}
			require.EqualValues(t, c.events, r.seq)
			require.LessOrEqual(t, pieces, c.pieces)
			r.reader.Close()
			other.reader.Close()
		}
	}
}

// A hub that is closed still hands out what is committed here, and closes twice.
func TestClosedHub(t *testing.T) {
	s := newStore()
	h := s.hub(t)
	h.Close()
	h.Close()
	c := follow(t, h, ref, 0)
	h.Committed(s.commit(ref, 1, 10))
	c.until(1)
	c.reader.Close()
	require.Zero(t, s.subscribed())
}

// A stream whose reading failed is woken again although the feed itself, kept up by another stream, misses nothing.
func TestStreamThatCouldNotReadOnIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.commit(ref, 260, 10)
		h := s.hub(t)
		atHead := follow(t, h, ref, 260)
		require.Zero(t, atHead.next())
		time.Sleep(12 * time.Second) // two sweeps: the feed remembers nothing
		behind := follow(t, h, ref, 0)
		s.fail(ports.ErrUnavailable)
		_, err := behind.reader.Next(t.Context())
		require.ErrorIs(t, err, ports.ErrUnavailable)
		s.fail(nil)
		for len(behind.reader.Wake()) > 0 {
			<-behind.reader.Wake()
		}
		behind.wokenWithin(6 * time.Second)
		behind.until(260)
		behind.reader.Close()
		atHead.reader.Close()
	})
}

// A commit that no wake-up told of reaches the streams before it also when another one resumes beyond it.
func TestResumeBeyondAMissedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.commit(ref, 3, 10)
		h := s.hub(t)
		old := follow(t, h, ref, 3)
		require.Zero(t, old.next())
		s.commit(ref, 3, 10) // in another process, whose notification is lost
		resumed := follow(t, h, ref, 6)
		require.Zero(t, resumed.next())
		synctest.Wait()
		for len(old.reader.Wake()) > 0 {
			<-old.reader.Wake()
		}
		old.wokenWithin(6 * time.Second)
		old.until(6)
		old.reader.Close()
		resumed.reader.Close()
	})
}
