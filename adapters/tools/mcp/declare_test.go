package mcp

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func load(t *testing.T, text string) (map[string]Server, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return Load(path)
}

func lookup(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": "s3cret", "CRLF": "a\r\nb", "PATH": "/bin", "OTHER": "x"}[name]
	return v, ok
}

func TestDeclarations(t *testing.T) {
	servers, err := load(t, `
servers:
  files:
    command: sh
    args: [--root, /srv]
    env: {KEY: '${TOKEN}'}
    timeout: 2h
  search:
    url: https://mcp.example.com/mcp
    headers: {authorization: 'Bearer ${TOKEN}'}
    startup: lazy
`)
	require.NoError(t, err)
	files, _, err := servers["files"].prepared("files", lookup, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"KEY=s3cret", "PATH=/bin"}, files.environment(lookup))
	require.Equal(t, eager, files.Startup)
	require.Equal(t, DefaultConnect, files.Connect)
	require.Equal(t, 2*time.Hour, files.MaxTimeout, "never less than the timeout")
	search, headers, err := servers["search"].prepared("search", lookup, nil)
	require.NoError(t, err)
	require.Equal(t, "Bearer s3cret", headers.Fixed().Get("Authorization"))
	require.Equal(t, DefaultTimeout, search.Timeout)
	require.Equal(t, DefaultMaxTimeout, search.MaxTimeout)

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\n"), 0o700))
	_, _, err = Server{Command: "./run", Dir: dir}.prepared("own", lookup, nil)
	require.NoError(t, err, "a relative command is looked for where it runs")
	t.Chdir(dir)
	for _, here := range []string{"", "."} {
		_, _, err = Server{Command: "./run", Dir: here}.prepared("own", lookup, nil)
		require.NoError(t, err)
	}
	_, _, err = Server{Command: "no-such-program", Dir: "/nowhere", Startup: lazy}.prepared("later", lookup, nil)
	require.NoError(t, err, "the program of a lazy server may be installed later")

	_, err = load(t, "servers: {a: {comand: x}}")
	require.ErrorContains(t, err, "comand")
}

func TestDeclarationsThatCannotWork(t *testing.T) {
	for text, want := range map[string]string{
		"a: {}":                            "either a command or a url",
		"a: {command: x, url: 'http://h'}": "either a command or a url",
		"a__b: {command: x}":               "the name of a server",
		"a_: {command: x}":                 "the name of a server",
		"'a b': {command: x}":              "the name of a server",
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: {command: x}": "the name of a server",
		"a: {command: x, headers: {A: b}}":                "headers: belong to a url",
		"a: {url: 'http://h', args: [x]}":                 "belong to a command",
		"a: {url: 'http://h', env: {A: b}}":               "belong to a command",
		"a: {url: 'ftp://h'}":                             "http://",
		"a: {url: 'http://u:p@h'}":                        "credentials",
		"a: {url: 'http://h/${TOKEN}'}":                   "url: ${…} belongs into headers",
		"a: {url: 'http://h/?key=${secret:key}'}":         "url: ${…} belongs into headers",
		"a: {url: 'http://h', headers: {A: '${NOPE}'}}":   "NOPE is not set",
		"a: {url: 'http://h', headers: {A: '${CRLF}'}}":   "no header",
		"a: {command: x, env: {A: '${NOPE}'}}":            "NOPE is not set",
		"a: {command: x, env: {'A=B': c}}":                "no name of a variable",
		"a: {command: x, startup: soon}":                  "eager or lazy",
		"a: {command: x, timeout: 1m, maxTimeout: 1s}":    "at least the timeout",
		"a: {command: x, timeout: -1s}":                   "timeout",
		"a: {command: x, connect: 25h}":                   "connect",
		"a: {command: x, maxOutput: 99999999}":            "maxOutput",
		"a: {command: x, tools: [b], replaySafe: [c]}":    "not among the tools",
		"a: {command: no-such-program}":                   `command: exec: "no-such-program": executable file not found`,
		"a: {command: bin/run, dir: /dev}":                `command: exec: "/dev/bin/run"`,
		"a: {command: sh, dir: /nowhere}":                 "dir: stat /nowhere: no such file or directory",
		"a: {command: sh, dir: /dev/null}":                "dir: /dev/null is no directory",
	} {
		servers, err := load(t, "servers: {"+text+"}")
		require.NoError(t, err, text)
		_, err = New(Config{Servers: servers, Lookup: lookup, Log: zap.NewNop()})
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "s3cret")
	}
}
