package main

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// TestConfigurationPage holds the page to the flags: each flag of keel serve is in a table of it with its variable and
// its default, and nothing else is.
func TestConfigurationPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/CONFIGURATION.md")
	require.NoError(t, err)
	var described []string
	for _, row := range regexp.MustCompile("(?m)^(\\| `--[^|]*\\|[^|]*\\|[^|]*\\|) [^|]+\\|$").FindAllStringSubmatch(string(page), -1) {
		described = append(described, row[1])
	}
	commands := kong.Must(new(cli), kong.Vars{"version": "test"}).Model.Children
	serve := commands[slices.IndexFunc(commands, func(n *kong.Node) bool { return n.Name == "serve" })]
	var flags []string
	for _, group := range serve.AllFlags(true) {
		for _, f := range group {
			if len(f.Envs) > 0 {
				flags = append(flags, "| `--"+f.Name+"` | `"+f.Envs[0]+"` | "+byDefault(f)+" |")
			}
		}
	}
	require.ElementsMatch(t, flags, described)
}

func byDefault(f *kong.Flag) string {
	if f.Default == "" {
		return cmp.Or(map[bool]string{true: "off"}[f.IsBool()], "–")
	}
	return "`" + f.Default + "`"
}
