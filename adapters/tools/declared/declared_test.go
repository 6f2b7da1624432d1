package declared_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/declared"
)

type file struct {
	Name string        `yaml:"name"`
	Wait time.Duration `yaml:"wait"`
}

func TestFilesAreReadStrictly(t *testing.T) {
	var f file
	require.NoError(t, declared.Decode([]byte("name: a\nwait: 1m30s\n"), &f))
	require.Equal(t, file{"a", 90 * time.Second}, f)
	require.NoError(t, declared.Decode(nil, &f), "an empty file declares nothing")
	for text, want := range map[string]string{
		"nick: a": `line 1: there is no key "nick"`, "name: a\n---\nname: b": "more than one", "wait: soon": "soon", "name: [": "yaml", "name: a\nname: b": "already defined",
	} {
		require.ErrorContains(t, declared.Decode([]byte(text), &f), want, text)
	}
	require.NotContains(t, declared.Decode([]byte("nick: a"), &f).Error(), "declared_test.file", "the operator does not know Go's types")
	path := filepath.Join(t.TempDir(), "tools.yaml")
	require.ErrorIs(t, declared.Read(path, &f), os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("nick: a"), 0o600))
	require.ErrorContains(t, declared.Read(path, &f), path)
}

func TestExpand(t *testing.T) {
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"KEY": "s3cret", "EMPTY": "", "NESTED": "${KEY}"}[name]
		return v, ok
	}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "Bearer ${KEY}": "Bearer s3cret", "${KEY}${KEY}": "s3crets3cret", "${EMPTY}": "", "$KEY": "$KEY", "5$": "5$",
		"${NESTED}": "${KEY}",
	} {
		got, err := declared.Expand(in, lookup)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for in, want := range map[string]string{
		"a ${MISSING}": "MISSING is not set", "${}": "want ${NAME}", "${KEY": "want ${NAME}", "${KEY:-x}": "want ${NAME}", "${1}": "want ${NAME}",
	} {
		got, err := declared.Expand(in, lookup)
		require.Empty(t, got, in)
		require.ErrorContains(t, err, want, in)
		require.NotContains(t, err.Error(), "s3cret")
	}
	all, err := declared.ExpandAll(map[string]string{"Authorization": "Bearer ${KEY}"}, lookup)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"Authorization": "Bearer s3cret"}, all)
	_, err = declared.ExpandAll(map[string]string{"X-Key": "${MISSING}"}, lookup)
	require.ErrorContains(t, err, "X-Key: ")
}
