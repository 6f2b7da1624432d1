package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/fx"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/ports"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tools.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestDeclaredToolsAreChecked(t *testing.T) {
	c := Config{Listen: "127.0.0.1:0", Store: "memory:", Auth: authOff, Provider: "fake"}
	for text, want := range map[string]string{
		"servers: {a: {}}": "server a: want either a command or a url", "servers: {a: {url: 'http://h', x: y}}": "x", "[]": "--mcp",
		"servers: {a: {command: no-such-program-anywhere}}": `server a: command: exec: "no-such-program-anywhere"`,
	} {
		bad := c
		bad.MCP = write(t, text)
		require.ErrorContains(t, bad.Validate(), "--mcp: ")
		require.ErrorContains(t, bad.Validate(), want)
	}
	for text, want := range map[string]string{
		"tools: [{name: a__b, description: d, url: 'http://h'}]": "__",
		"tools: [{name: a, url: 'http://h'}]":                    "tool 1 (a): description",
	} {
		bad := c
		bad.HTTPTools = write(t, text)
		require.ErrorContains(t, bad.Validate(), "--http-tools: ")
		require.ErrorContains(t, bad.Validate(), want)
	}
	const secret = "tools: [{name: near, description: d, url: 'http://h', headers: {Authorization: 'Bearer ${secret:crm}'}}]"
	keyless := c
	keyless.HTTPTools = write(t, secret)
	require.ErrorContains(t, keyless.Validate(), "--http-tools: tool 1 (near): headers: Authorization: ${secret:crm}: the server keeps no secrets of tenants, since no key for them is configured")
	keyless.HTTPTools, keyless.MCP = "", write(t, "servers: {s: {url: 'http://h', headers: {A: '${secret:crm}'}}}")
	require.ErrorContains(t, keyless.Validate(), "--mcp: server s: headers: A: ${secret:crm}: the server keeps no secrets of tenants")
	c.SecretsKeys = write(t, "8f1c02d7e6a94b3357aa10fe62c8b95d04e17b3c9ad25f6681f3467d90be2a1c")
	c.MCP = write(t, "servers: {a: {command: no-such-program-anywhere, startup: lazy}, b: {url: 'http://h', headers: {A: '${secret:crm}'}}}")
	c.HTTPTools = write(t, secret)
	require.NoError(t, c.Validate())

	var names []string
	a := fx.New(Options(c, zap.NewNop()), fx.Invoke(func(p everyPort) {
		require.Len(t, p.Tools, 3)
		for _, set := range p.Tools {
			for _, spec := range set.Specs() {
				names = append(names, spec.Name)
			}
		}
	}))
	require.NoError(t, a.Start(t.Context()), "a server that is away keeps nobody from starting")
	require.NoError(t, a.Stop(t.Context()))
	require.ElementsMatch(t, []string{"calculator", "sleep", "time", "near"}, names)
}

type fixedTools struct {
	ports.Tools

	names []string
}

func (f fixedTools) Specs() []ports.ToolSpec {
	var specs []ports.ToolSpec
	for _, name := range f.names {
		specs = append(specs, ports.ToolSpec{Name: name})
	}
	return specs
}

func TestTwoToolsOfOneName(t *testing.T) {
	a, b := fixedTools{names: []string{"x", "y"}}, fixedTools{names: []string{"z"}}
	require.NoError(t, distinctTools([]ports.Tools{a, b}))
	require.ErrorContains(t, distinctTools([]ports.Tools{a, b, fixedTools{names: []string{"y"}}}), "two tools named y")

	c := Config{Listen: "127.0.0.1:0", Store: "memory:", Auth: authOff, Provider: "fake"}
	c.HTTPTools = write(t, "tools: [{name: sleep, description: d, url: 'http://h'}]")
	require.ErrorContains(t, fx.New(Options(c, zap.NewNop()), fx.NopLogger).Err(), "two tools named sleep")
}

// TestSuccessorsTakeTools: what a first process serves, its successor does not refuse, whatever tools there are.
func TestSuccessorsTakeTools(t *testing.T) {
	c := Config{Listen: "127.0.0.1:0", Store: "sqlite:" + filepath.Join(t.TempDir(), "keel.db"), Auth: authOff, Provider: "fake"}
	a := fx.New(Options(c, zap.NewNop()), fx.NopLogger, fx.Invoke(func(everyPort) {}))
	require.NoError(t, a.Start(t.Context()))
	require.NoError(t, a.Stop(t.Context()))
	const auth = "headers: {Authorization: '${secret:crm}'}"
	for name, change := range map[string]func(*Config){
		"workspace":  func(c *Config) { c.Workspace = t.TempDir() },
		"http tools": func(c *Config) { c.HTTPTools = write(t, "tools: [{name: near, description: d, url: 'http://h'}]") },
		"mcp":        func(c *Config) { c.MCP = write(t, "servers: {s: {url: 'http://h'}}") },
		"secrets": func(c *Config) {
			c.SecretsKeys = write(t, "8f1c02d7e6a94b3357aa10fe62c8b95d04e17b3c9ad25f6681f3467d90be2a1c")
			c.HTTPTools = write(t, "tools: [{name: near, description: d, url: 'http://h', "+auth+"}]")
			c.MCP = write(t, "servers: {s: {url: 'http://h', "+auth+"}}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			change(&c)
			require.NoError(t, c.Validate())
			require.NoError(t, c.check(zap.NewNop()))
		})
	}
}
