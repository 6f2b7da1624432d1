package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

const (
	separator   = "__"
	longestName = 64 // what backends accept
	hashLength  = 8
)

var refusedRune = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// offeredNames gives each of a server's tools the name by which models call it: server__tool, with "_" for what
// backends refuse. One that is too long, or that another tool would share, ends in a hash of the tool's own name. It
// depends on the set of names alone, not on their order.
func offeredNames(server string, tools []string) map[string]string {
	shared := map[string]int{}
	for _, tool := range tools {
		shared[plainName(server, tool)]++
	}
	names := map[string]string{}
	for _, tool := range tools {
		name := plainName(server, tool)
		unaltered := name == server+separator+tool
		if len(name) > longestName || shared[name] > 1 && !unaltered {
			name = hashedName(name, tool)
		}
		names[tool] = name
	}
	return names
}

func plainName(server, tool string) string {
	return server + separator + refusedRune.ReplaceAllString(tool, "_")
}

func hashedName(name, tool string) string {
	sum := sha256.Sum256([]byte(tool))
	keep := min(len(name), longestName-hashLength-1)
	return name[:keep] + "_" + hex.EncodeToString(sum[:])[:hashLength]
}

// serverOf returns the server that a tool's name belongs to, "" when it is none's.
func serverOf(name string) string {
	server, _, ok := strings.Cut(name, separator)
	if !ok {
		return ""
	}
	return server
}
