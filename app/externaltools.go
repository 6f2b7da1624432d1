package app

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/fx"
	"go.uber.org/zap"

	httptools "github.com/keel-agent/keel/adapters/tools/http"
	"github.com/keel-agent/keel/adapters/tools/mcp"
	"github.com/keel-agent/keel/app/secrets"
	"github.com/keel-agent/keel/ports"
)

// vaultOrNone is v for those who take none for a server without secrets of tenants.
func vaultOrNone(v *secrets.Vault) ports.Vault {
	if v == nil {
		return nil
	}
	return v
}

// unopenedVault says whether there are secrets of tenants before the store is opened that has them: nil when there are
// none. Nothing is asked of it.
func (c Config) unopenedVault() (*secrets.Vault, error) {
	keys, err := c.secretKeys()
	if keys == nil || err != nil {
		return nil, err
	}
	return secrets.New(nil, keys, systemClock{}), nil
}

// httpTools makes the declared endpoints into tools. Nothing is contacted.
func (c Config) httpTools(v ports.Vault) (*httptools.Tools, error) {
	endpoints, err := httptools.Load(c.HTTPTools)
	if err != nil {
		return nil, err
	}
	return httptools.New(httptools.Config{
		Endpoints: endpoints, Lookup: os.LookupEnv, Vault: v, UserAgent: "keel-agent/" + Version,
	})
}

func (c Config) validateHTTPTools() error {
	if c.HTTPTools == "" {
		return nil
	}
	vault, err := c.unopenedVault()
	if err != nil {
		return err
	}
	tools, err := c.httpTools(vaultOrNone(vault))
	if err != nil {
		return fmt.Errorf("--http-tools: %w", err)
	}
	for _, spec := range tools.Specs() {
		if strings.Contains(spec.Name, "__") {
			return fmt.Errorf("--http-tools: tool %s: __ in a name stands for a tool of an MCP server", spec.Name)
		}
	}
	return nil
}

func newHTTPTools(c Config, v *secrets.Vault, lc fx.Lifecycle) (ports.Tools, error) {
	tools, err := c.httpTools(vaultOrNone(v))
	if err != nil {
		return nil, fmt.Errorf("--http-tools: %w", err)
	}
	lc.Append(fx.StopHook(tools.Close))
	return tools, nil
}

// mcpTools makes the set of the declared servers. Nothing is started.
func (c Config) mcpTools(v ports.Vault, log *zap.Logger) (*mcp.Tools, error) {
	servers, err := mcp.Load(c.MCP)
	if err != nil {
		return nil, err
	}
	return mcp.New(mcp.Config{Servers: servers, Lookup: os.LookupEnv, Vault: v, Version: Version, Log: log})
}

func (c Config) validateMCP() error {
	if c.MCP == "" {
		return nil
	}
	vault, err := c.unopenedVault()
	if err != nil {
		return err
	}
	if _, err := c.mcpTools(vaultOrNone(vault), zap.NewNop()); err != nil {
		return fmt.Errorf("--mcp: %w", err)
	}
	return nil
}

// mcpFarewell bounds how long MCP servers may take to end.
const mcpFarewell = 5 * time.Second

// newMCPTools connects to the servers in the background: a server is ready without them.
func newMCPTools(c Config, v *secrets.Vault, lc fx.Lifecycle, log *zap.Logger) (ports.Tools, error) {
	tools, err := c.mcpTools(vaultOrNone(v), log.Named("mcp"))
	if err != nil {
		return nil, fmt.Errorf("--mcp: %w", err)
	}
	lc.Append(fx.Hook{
		OnStart: func(context.Context) error { tools.Start(); return nil },
		OnStop: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, mcpFarewell)
			defer cancel()
			tools.Close(ctx)
			return nil
		},
	})
	return tools, nil
}

// distinctTools refuses two tools of one name, of which chance would choose.
func distinctTools(sets []ports.Tools) error {
	taken := map[string]bool{}
	for _, set := range sets {
		for _, spec := range set.Specs() {
			if taken[spec.Name] {
				return fmt.Errorf("there are two tools named %s", spec.Name)
			}
			taken[spec.Name] = true
		}
	}
	return nil
}
