package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestFilesThatEveryoneCanRead(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	tokens := file("tokens", "0123456789abcdef acme\n")
	keys := file("keys", "8f1c02d7e6a94b3357aa10fe62c8b95d04e17b3c9ad25f6681f3467d90be2a1c")
	c := Config{Auth: authTokens + tokens, SecretsKeys: keys}
	for mode, warned := range map[os.FileMode][]string{
		0o600: nil,
		0o640: nil,
		0o644: {"everyone on this machine can read the tokens of --auth " + tokens, "everyone on this machine can read the keys of the secrets " + keys},
	} {
		require.NoError(t, os.Chmod(tokens, mode))
		require.NoError(t, os.Chmod(keys, mode))
		core, logs := observer.New(zap.WarnLevel)
		_, err := newAuthenticator(c, zap.New(core))
		require.NoError(t, err)
		_, err = newVault(c, nil, systemClock{}, zap.New(core))
		require.NoError(t, err)
		var got []string
		for _, entry := range logs.All() {
			got = append(got, entry.Message+" "+entry.ContextMap()["file"].(string))
		}
		require.Equal(t, warned, got, mode.String())
	}
}
