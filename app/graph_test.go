package app

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/fx"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/postgres/postgrestest"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/ports"
)

// everyPort names each port of the graph: fx builds only what somebody asks for.
type everyPort struct {
	fx.In

	Ledger    ports.Ledger
	Sessions  ports.Sessions
	Runs      ports.Runs
	Processes ports.Processes
	Settings  ports.Settings
	Wakeups   ports.Wakeups
	Partials  ports.Partials
	Secrets   ports.Secrets
	Clock     ports.Clock
	IDs       ports.IDs
	Tools     []ports.Tools `group:"tools"`
	Providers *runner.Providers
}

func TestTheWholeGraphBuilds(t *testing.T) {
	for name, store := range map[string]string{
		"memory": "memory:", "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "keel.db"), "postgres": postgrestest.Database(t, ""),
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Listen: "127.0.0.1:0", Store: store, Auth: authOff, Provider: "fake"}
			require.NoError(t, c.Validate())
			var all everyPort
			a := fx.New(Options(c, zap.NewNop()), fx.Populate(&all.Ledger, &all.Sessions, &all.Runs, &all.Processes, &all.Settings,
				&all.Wakeups, &all.Partials, &all.Secrets, &all.Clock, &all.IDs, &all.Providers),
				fx.Invoke(func(p everyPort) { all.Tools = p.Tools }))
			require.NoError(t, a.Err())
			require.Len(t, all.Tools, 1)
			require.NoError(t, a.Start(t.Context()))
			require.NoError(t, a.Stop(t.Context()))
		})
	}
}

func TestGraphNeedsNoStore(t *testing.T) {
	dot, err := Graph(Config{Listen: "127.0.0.1:0", Store: "postgres://nobody@127.0.0.1:1/none", Auth: authOff})
	require.NoError(t, err)
	require.Contains(t, dot, "digraph")
	require.Contains(t, dot, "ports.Ledger")
}

func TestValidateNamesTheFlag(t *testing.T) {
	good := Config{Listen: "127.0.0.1:8420", Store: "memory:", Auth: authOff}
	require.NoError(t, good.Validate())
	for flag, spoil := range map[string]func(*Config){
		"--listen":          func(c *Config) { c.Listen = "nowhere" },
		"--store":           func(c *Config) { c.Store = "mysql://x" },
		"--auth off":        func(c *Config) { c.Listen = "0.0.0.0:80" },
		"--heartbeat":       func(c *Config) { c.Heartbeat, c.LeaseTTL = 10, 11 },
		"--workers":         func(c *Config) { c.Workers = -1 },
		"--drain-grace":     func(c *Config) { c.DrainGrace = -1 },
		"--bash \"on\"":     func(c *Config) { c.Workspace, c.Bash = "w", "on" },
		"needs --workspace": func(c *Config) { c.Bash = "sandboxed" },
		"--bash-network":    func(c *Config) { c.Workspace, c.Bash, c.BashNetwork = "w", "unconfined", true },
	} {
		c := good
		spoil(&c)
		require.ErrorContains(t, c.Validate(), flag)
	}
}

func TestTokenIsMadeOnceAndPrivate(t *testing.T) {
	c := Config{Store: "sqlite:" + filepath.Join(t.TempDir(), "sub", "keel.db")}
	require.Empty(t, c.ReadToken())
	_, err := c.authenticator()
	require.NoError(t, err)
	token := c.ReadToken()
	require.Len(t, token, 43)
	again, err := c.ensureToken()
	require.NoError(t, err)
	require.Equal(t, token, again)
	path, err := c.TokenPath()
	require.NoError(t, err)
	requirePrivate(t, path)
}
