package portstest

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// TestSettings checks a ports.Settings.
func TestSettings(t *testing.T, open Open) {
	suite{
		{"a document and its revisions", settingRevisions},
		{"documents are apart", settingsApart},
		{"given again", settingAgain},
		{"text comes back as it is", settingText},
		{"of many at once one wins", settingRace},
		{"another process", settingElsewhere},
	}.run(t, open)
}

func (e *env) put(tenant, name, document string, expected int64) ports.Setting {
	e.Helper()
	s, err := e.Settings.Put(e.ctx, tenant, name, document, expected)
	require.NoError(e, err)
	return s
}

func (e *env) setting(tenant, name string) ports.Setting {
	e.Helper()
	s, err := e.Settings.Get(e.ctx, tenant, name)
	require.NoError(e, err)
	return s
}

func settingRevisions(e *env) {
	_, err := e.Settings.Get(e.ctx, "t", "n")
	require.ErrorIs(e, err, domain.ErrNotFound)
	_, err = e.Settings.Put(e.ctx, "t", "n", "early", 1)
	require.ErrorIs(e, err, domain.ErrRevisionConflict)
	_, err = e.Settings.Get(e.ctx, "t", "n")
	require.ErrorIs(e, err, domain.ErrNotFound, "the refused one is not there")

	require.Equal(e, ports.Setting{Document: "one", Revision: 1}, e.put("t", "n", "one", 0))
	require.Equal(e, ports.Setting{Document: "two", Revision: 2}, e.put("t", "n", "two", 1))
	for _, wrong := range []int64{0, 1, 3} {
		_, err = e.Settings.Put(e.ctx, "t", "n", "lost", wrong)
		require.ErrorIs(e, err, domain.ErrRevisionConflict)
	}
	require.Equal(e, ports.Setting{Document: "two", Revision: 2}, e.setting("t", "n"))
	require.Equal(e, ports.Setting{Document: "three", Revision: 3}, e.put("t", "n", "three", ports.AnyRevision))
	require.Equal(e, ports.Setting{Document: "first", Revision: 1}, e.put("t", "m", "first", ports.AnyRevision))
}

func settingsApart(e *env) {
	for _, key := range [][2]string{{"a", "n"}, {"a", "m"}, {"b", "n"}} {
		e.put(key[0], key[1], strings.Join(key[:], " "), 0)
	}
	require.Equal(e, ports.Setting{Document: "a n", Revision: 1}, e.setting("a", "n"))
	require.Equal(e, ports.Setting{Document: "a m", Revision: 1}, e.setting("a", "m"))
	require.Equal(e, ports.Setting{Document: "b n", Revision: 1}, e.setting("b", "n"))
	_, err := e.Settings.Get(e.ctx, "b", "m")
	require.ErrorIs(e, err, domain.ErrNotFound)
}

// settingAgain: whoever did not get the reply gives the same again.
func settingAgain(e *env) {
	e.put("t", "n", "one", 0)
	e.put("t", "n", "two", 1)
	for _, expected := range []int64{0, 1, 2, ports.AnyRevision} {
		require.Equal(e, ports.Setting{Document: "two", Revision: 2}, e.put("t", "n", "two", expected))
	}
}

func settingText(e *env) {
	long := strings.Repeat("0123456789", 100_000)
	for i, text := range []string{"", `{"a":"\u0000","b":"\\"}`, "é 😀 ' ? $1 %s\n\t", long} {
		e.put("t ? $1", "n'", text, ports.AnyRevision)
		require.Equal(e, ports.Setting{Document: text, Revision: int64(i + 1)}, e.setting("t ? $1", "n'"))
	}
}

func settingRace(e *env) {
	const writers = 8
	e.put("t", "n", "start", 0)
	var won sync.Map
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			document := strings.Repeat("x", i+1)
			s, err := e.Settings.Put(e.ctx, "t", "n", document, 1)
			if err == nil {
				won.Store(document, s.Revision)
			} else {
				assert.ErrorIs(e, err, domain.ErrRevisionConflict)
			}
			_, err = e.Settings.Put(e.ctx, "t", "any", document, ports.AnyRevision)
			assert.NoError(e, err)
		})
	}
	group.Wait()
	now, winners := e.setting("t", "n"), 0
	won.Range(func(document, revision any) bool {
		winners++
		require.Equal(e, now, ports.Setting{Document: document.(string), Revision: revision.(int64)})
		return true
	})
	require.Equal(e, 1, winners)
	require.Equal(e, int64(2), now.Revision)
	require.Equal(e, int64(writers), e.setting("t", "any").Revision, "each was a revision of its own")
}

func settingElsewhere(e *env) {
	for i, h := range e.handles() {
		_, err := h.Settings.Put(e.ctx, "t", "n", strings.Repeat("x", i+1), int64(i))
		require.NoError(e, err)
	}
	for _, h := range e.handles() {
		s, err := h.Settings.Get(e.ctx, "t", "n")
		require.NoError(e, err)
		require.Equal(e, int64(len(s.Document)), s.Revision)
		require.Equal(e, e.setting("t", "n"), s)
	}
}
