package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/ports"
)

var lsSpec = ports.ToolSpec{
	Name:        "ls",
	Description: "Lists a directory of the workspace, sorted by name: directories end in /, links show where they lead, files their size.",
	Schema: `{"type":"object","properties":{"path":{"type":"string","maxLength":4096,` +
		`"description":"relative to the workspace; the workspace itself when absent"}},"additionalProperties":false}`,
	ReplaySafe: true, Sequential: true,
}

const (
	maxListed  = 1000   // entries that are shown
	maxEntries = 20_000 // entries of a directory that are read
)

func ls(_ context.Context, dir directory, args toolset.Arguments) (string, error) {
	name, err := dir.local(args.Text("path"))
	if err != nil {
		return "", err
	}
	entries, err := dir.list(name, maxEntries)
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "[the directory is empty]", nil
	}
	sortEntries(entries)
	var b strings.Builder
	for _, e := range entries[:min(len(entries), maxListed)] {
		b.WriteString(dir.line(path.Join(name, e.Name()), e) + "\n")
	}
	switch {
	case len(entries) == maxEntries:
		fmt.Fprintf(&b, "[cut: %d of more than %d entries]", maxListed, maxEntries)
	case len(entries) > maxListed:
		fmt.Fprintf(&b, "[cut: %d of %d entries]", maxListed, len(entries))
	}
	return b.String(), nil
}

func sortEntries(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
}

func (d directory) line(name string, e fs.DirEntry) string {
	base := printable(e.Name())
	switch {
	case e.IsDir():
		return base + "/"
	case e.Type()&fs.ModeSymlink != 0:
		to, _ := d.Readlink(name)
		return base + " -> " + printable(to)
	case !e.Type().IsRegular():
		return base + " (special)"
	}
	info, err := d.Lstat(name)
	if err != nil {
		return base
	}
	return fmt.Sprintf("%s (%d bytes)", base, info.Size())
}

// printable is a name on one line.
func printable(name string) string {
	if strings.ContainsAny(name, "\n\r") {
		return fmt.Sprintf("%q", name)
	}
	return name
}
