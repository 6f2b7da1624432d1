package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// parse reads a command line as main does.
func parse(t *testing.T, args ...string) (cli, error) {
	t.Helper()
	var c cli
	p := kong.Must(&c, kong.Name("keel"), kong.Vars{"version": "test"}, kong.Exit(func(int) {}),
		kong.Resolvers(fileResolver(configPath(args))))
	_, err := p.Parse(args)
	return c, err
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keel.yaml")
	require.NoError(t, os.WriteFile(file, []byte("workers: 7\nlease-ttl: 20s\nmodel: from-file\nallowed-hosts: [a.example, b.example]\n"), 0o600))

	c, err := parse(t, "serve", "--config", file)
	require.NoError(t, err)
	require.Equal(t, 7, c.Serve.Workers)
	require.Equal(t, 20*time.Second, c.Serve.LeaseTTL)
	require.Equal(t, []string{"a.example", "b.example"}, c.Serve.AllowedHosts)

	t.Setenv("KEEL_WORKERS", "8")
	t.Setenv("KEEL_CONFIG", file)
	c, err = parse(t, "serve")
	require.NoError(t, err)
	require.Equal(t, 8, c.Serve.Workers)
	require.Equal(t, "from-file", c.Serve.Model)

	c, err = parse(t, "serve", "--workers", "9")
	require.NoError(t, err)
	require.Equal(t, 9, c.Serve.Workers)
}

func TestConfigFileFaultsAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keel.yaml")
	require.NoError(t, os.WriteFile(file, []byte("wrokers: 7\n"), 0o600))
	_, err := parse(t, "serve", "--config="+file)
	require.ErrorContains(t, err, `no setting "wrokers"`)
	require.NoError(t, os.WriteFile(file, []byte(":\n  - ]"), 0o600))
	_, err = parse(t, "serve", "--config="+file)
	require.ErrorContains(t, err, file)
}

func TestExitCodes(t *testing.T) {
	require.Equal(t, 0, run([]string{"version"}))
	require.Equal(t, 2, run([]string{"nonsense"}))
	require.Equal(t, 1, run([]string{"serve", "--store", "mysql:x"}))
	require.Equal(t, 1, run([]string{"serve", "--auth", "off", "--listen", "0.0.0.0:0"}))
	require.Equal(t, 1, run([]string{"migrate", "up", "--store", "memory:"}))
}

func TestMigrateTwice(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "keel.db")
	for range 2 {
		require.Equal(t, 0, run([]string{"migrate", "up", "--store", store}))
	}
	require.Equal(t, 0, run([]string{"migrate", "status", "--store", store}))
}

func TestHostileIdsStayOnTheirLine(t *testing.T) {
	require.Equal(t, "s1 é", oneLine("s1 é"))
	require.Equal(t, `"a\x1b[2Jb\nverified 0 faults"`, oneLine("a\x1b[2Jb\nverified 0 faults"))
	require.Equal(t, `"\xff"`, oneLine("\xff"))
}

func TestHandOverFlags(t *testing.T) {
	for _, set := range []bool{false, true} {
		args, wait := []string{"serve"}, time.Duration(0)
		if set {
			args, wait = []string{"serve", "--reuse-port", "--store-wait", "5s"}, 5*time.Second
		}
		c, err := parse(t, args...)
		require.NoError(t, err)
		config, err := c.Serve.config()
		require.NoError(t, err)
		require.Equal(t, set, config.ReusePort)
		require.Equal(t, wait, config.StoreWait)
	}
}
