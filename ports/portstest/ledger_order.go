package portstest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// gaplessUnderLoad: eight clients and one owner write while readers follow: every reader sees each seq once, in order,
// and nothing appears behind its cursor (K38).
func gaplessUnderLoad(e *env) {
	const clients, inputs, answers, readers = 8, 20, 40, 4
	const total = 1 + clients*inputs + answers
	w := e.started()
	var wg sync.WaitGroup
	fail := make(chan error, clients+readers+1)
	handles := e.handles()
	give := func(cmd domain.Command) bool {
		if _, err := handles[int(e.n.Load())%len(handles)].Ledger.Do(e.ctx, w.ref, cmd); err != nil {
			fail <- fmt.Errorf("%T: %w", cmd, err)
			return false
		}
		return true
	}
	for range clients {
		wg.Go(func() {
			for i := range inputs {
				c := e.input("hello")
				if !give(c) {
					return
				}
				if c.Payload = e.input("other").Payload; i%4 == 0 { // a refusal leaves no gap
					_, _ = e.Ledger.Do(e.ctx, w.ref, c)
				}
			}
		})
	}
	wg.Go(func() {
		for range answers {
			if !give(w.failing(1)) {
				return
			}
		}
	})
	for range readers {
		wg.Go(func() { fail <- e.follow(w.ref, total) })
	}
	wg.Wait()
	close(fail)
	for err := range fail {
		require.NoError(e, err)
	}
	events := e.events(w.ref)
	require.Len(e, events, total)
	var hash domain.Hash
	for i, ev := range events {
		require.EqualValues(e, i+1, ev.Seq)
		hash = domain.NextHash(hash, ev)
		require.Equal(e, hash, ev.Hash, "the chain breaks at %d", ev.Seq)
	}
	row := e.row(w.ref)
	require.EqualValues(e, total, row.HeadSeq)
	require.Equal(e, hash, row.HeadHash)
	require.Len(e, row.Unanswered, 1+clients*inputs)
	fold, err := domain.FoldEvents(events, 0)
	require.NoError(e, err)
	require.Equal(e, fold.Unanswered, row.Unanswered)
}

// follow reads from the beginning until seq total, in small pages.
func (e *env) follow(ref domain.SessionRef, total domain.Seq) error {
	for at := domain.Seq(0); at < total; {
		page, err := e.Ledger.Events(e.ctx, ref, at, 7)
		if err != nil {
			return err
		}
		for _, ev := range page {
			if ev.Seq != at+1 {
				return fmt.Errorf("a reader at %d meets %d", at, ev.Seq)
			}
			at = ev.Seq
		}
	}
	return nil
}

// contextsEnd: a caller who gives up does not know whether its command was carried out; giving it again settles that,
// and leaves neither a gap nor a second event (K17).
func contextsEnd(e *env) {
	const inputs = 40
	ref := e.session()
	for i := range inputs {
		c := e.input("hello")
		ctx, cancel := context.WithCancel(e.ctx)
		timer := time.AfterFunc(time.Duration(i*i)*time.Microsecond, cancel)
		if i == 0 {
			cancel()
		}
		out, err := e.Ledger.Do(ctx, ref, c)
		timer.Stop()
		cancel()
		again := e.do(ref, c)
		if err == nil {
			require.False(e, again.Created)
			require.Equal(e, *out.Event, *again.Event)
		}
		require.EqualValues(e, i+1, again.Event.Seq)
	}
	require.Len(e, e.events(ref), inputs)
	require.EqualValues(e, 1+inputs, e.row(ref).Version, "one write each")
}

func reading(e *env) {
	ref := e.session()
	for range 5 {
		e.submit(ref)
	}
	seqs := func(after domain.Seq, limit int) []domain.Seq {
		page, err := e.Ledger.Events(e.ctx, ref, after, limit)
		require.NoError(e, err)
		var got []domain.Seq
		for _, ev := range page {
			got = append(got, ev.Seq)
		}
		return got
	}
	require.Equal(e, []domain.Seq{1, 2}, seqs(0, 2))
	require.Equal(e, []domain.Seq{3, 4, 5}, seqs(2, 100))
	require.Equal(e, []domain.Seq{5}, seqs(4, 1))
	require.Empty(e, seqs(5, 10))
	require.Empty(e, seqs(1<<40, 10))
}

// pageBytes: a page ends with the payload that exceeds PageBytes, and says so by its size alone.
func pageBytes(e *env) {
	ref := e.session()
	const size = ports.PageBytes * 2 / 5
	for range 5 {
		in := e.input(strings.Repeat("x", size))
		e.do(ref, in)
	}
	first, err := e.Ledger.Events(e.ctx, ref, 0, 100)
	require.NoError(e, err)
	require.Len(e, first, 3)
	require.False(e, ports.IsLastPage(first, 100))
	rest, err := e.Ledger.Events(e.ctx, ref, 3, 100)
	require.NoError(e, err)
	require.Len(e, rest, 2)
	require.True(e, ports.IsLastPage(rest, 100))
	require.False(e, ports.IsLastPage(rest, 2))
}
