package workspace_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/workspace"
)

// canary is in files that no tool may show.
const canary = "CANARY-5d1f"

// prison is a workspace with everything around it that an escape would reach.
type prison struct {
	*rig
	outside string // a directory beside the workspaces
	before  string
}

func newPrison(t *testing.T, c workspace.Config) *prison {
	t.Helper()
	r := newRig(t, c)
	p := &prison{rig: r, outside: filepath.Join(filepath.Dir(r.base), "outside")}
	for _, dir := range []string{p.outside, filepath.Join(r.base, "t", "other"), filepath.Join(r.base, "u", "s")} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "secret.txt"), []byte(canary+"\n"), 0o644))
	}
	p.before = p.surroundings()
	return p
}

// surroundings describes everything around the workspace.
func (p *prison) surroundings() string {
	p.t.Helper()
	var b strings.Builder
	require.NoError(p.t, filepath.WalkDir(filepath.Dir(p.base), func(path string, e fs.DirEntry, err error) error {
		if path == p.dir {
			return fs.SkipDir
		}
		require.NoError(p.t, err)
		info, err := e.Info()
		require.NoError(p.t, err)
		content := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			require.NoError(p.t, err)
			content = string(data)
		}
		fmt.Fprintln(&b, path, info.Mode(), content)
		return nil
	}))
	return b.String()
}

// holds fails when the text shows a canary or when anything around the workspace has changed.
func (p *prison) holds(text, attempt string) {
	p.t.Helper()
	require.NotContains(p.t, text, canary, attempt)
	require.Equal(p.t, p.before, p.surroundings(), attempt)
}

func (p *prison) link(to, name string) {
	p.t.Helper()
	require.NoError(p.t, os.Symlink(to, filepath.Join(p.dir, name)))
}

// plant puts traps into the workspace, as a command or an unpacked archive may leave them.
func (p *prison) plant() {
	p.link(filepath.Join(p.outside, "secret.txt"), "link")
	p.link("../../../outside/secret.txt", "relative")
	p.link(p.outside, "dirlink")
	p.link("../other", "other")
	p.link("other", "chain")
	p.link("loop", "loop")
	p.link("/proc/self/root", "proc")
	p.link("/dev/fd", "fd")
	p.link("/dev/zero", "zero")
	p.link(p.dir, "self")
	p.put("dir/file", "fine")
	p.link("../../other", "dir/up")
	p.put("sparse", "x")
	require.NoError(p.t, os.Truncate(filepath.Join(p.dir, "sparse"), 1<<40))
	p.plantSpecial()
}

func arguments(pairs ...string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	data, _ := json.Marshal(m)
	return string(data)
}

// TestFilesCannotBeReachedOutside makes attempts with paths and traps; each must be refused, and none may hang.
func TestFilesCannotBeReachedOutside(t *testing.T) {
	p := newPrison(t, workspace.Config{})
	p.plant()
	paths := []string{
		"../other/secret.txt", "../../u/s/secret.txt", "../../../outside/secret.txt", "dir/../../other/secret.txt", "dir//..//../other/secret.txt",
		"./../other/secret.txt", strings.Repeat("../", 40) + "etc/passwd", "link", "relative", "dirlink/secret.txt", "other/secret.txt",
		"chain/secret.txt", "dir/up/secret.txt", "loop", "loop/x", "proc/etc/passwd", "proc" + p.outside + "/secret.txt", "fd/0", "zero",
		"self/../other/secret.txt", "pipe", "socket", "sparse", filepath.Join(p.outside, "secret.txt"), filepath.Join(p.dir, "dir/file"),
		"/etc/passwd", "/proc/self/environ", "/dev/stdin", "//etc/passwd", "dir/file\x00/../../../other/secret.txt", "secret.txt\x00",
		"..\\u\\s\\secret.txt", "．．/other/secret.txt", "‥/other/secret.txt", "%2e%2e/other/secret.txt", "..%2fu/s", "~/secret.txt",
		"$HOME/secret.txt", "file:///etc/passwd", "DIRLINK/secret.txt", "dir/file/../../../other/secret.txt", ".. /other/secret.txt",
		strings.Repeat("d/", 2000) + "x", "..", "../", "dir/../..",
	}
	attempts := 0
	for _, path := range paths {
		for name, args := range map[string]string{
			"read": arguments("path", path), "edit": arguments("path", path, "old", "CANARY", "new", "pwned"),
			"ls": arguments("path", path), "glob": arguments("path", path, "pattern", "**"), "grep": arguments("path", path, "pattern", "CAN"),
		} {
			text, isError := p.run(name, args)
			if !isError {
				require.Equal(t, "grep", name, "%s %q: %s", name, path, text)
				require.Contains(t, text, "[no line matches]", "%q", path)
			}
			p.holds(text, name+" "+path)
			attempts++
		}
	}
	for _, path := range []string{
		"../pwned", "../other/secret.txt", "dirlink/pwned", "dirlink/new/pwned", "link", "relative", "other/secret.txt", "chain/pwned", "dir/up/pwned",
		"new/../../pwned", p.outside + "/pwned", "/tmp/keel-pwned", "loop", "proc/tmp/keel-pwned", "fd/1", "zero", "pipe", "socket", ".", "..", "",
		"x\x00y", "dir/up", "self/pwned", "dir/file/pwned",
	} {
		text, isError := p.run("write", arguments("path", path, "content", "pwned"))
		require.True(t, isError, "%q: %s", path, text)
		p.holds(text, "write "+path)
		attempts++
	}
	for name, args := range map[string][]string{
		"glob": {
			arguments("pattern", "../**"), arguments("pattern", "/etc/*"), arguments("pattern", "**/secret.txt"), arguments("pattern", "{..,dir}/**"),
			arguments("pattern", "dirlink/*"), arguments("pattern", "[.][.]/*"), arguments("pattern", "dir/up/**"),
		},
		"grep": {
			arguments("pattern", "CAN"), arguments("pattern", "CAN", "include", "../**"), arguments("pattern", "CAN", "include", "dirlink/*"),
			arguments("pattern", "CAN", "include", "**"),
		},
	} {
		for _, args := range args {
			text, _ := p.run(name, args)
			require.NotContains(t, text, "secret.txt", args)
			p.holds(text, name+args)
			attempts++
		}
	}
	require.Greater(t, attempts, 200)
	require.NoFileExists(t, "/tmp/keel-pwned")
}

// TestHardLinksAreNotWrittenThrough: whoever could make the link could read the file; but it is another's to change.
func TestHardLinksAreNotWrittenThrough(t *testing.T) {
	p := newPrison(t, workspace.Config{})
	for _, name := range []string{"write", "edit"} {
		require.NoError(t, os.Link(filepath.Join(p.outside, "secret.txt"), filepath.Join(p.dir, name)))
	}
	text, isError := p.run("write", arguments("path", "write", "content", "pwned"))
	require.False(t, isError, text)
	p.holds(text, "write")
	text, isError = p.run("edit", arguments("path", "edit", "old", "CANARY", "new", "pwned"))
	require.False(t, isError, text)
	p.holds(text, "edit")
	require.Equal(t, "pwned", p.content("write"))
}

// TestLinksThatChangeMeanwhile: a directory that becomes a link to the outside between any two steps of a tool.
func TestLinksThatChangeMeanwhile(t *testing.T) {
	p := newPrison(t, workspace.Config{})
	p.put("swap/secret.txt", "mine\n")
	p.put("real/secret.txt", "mine\n")
	var stop atomic.Bool
	var swaps atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		swap := filepath.Join(p.dir, "swap")
		for !stop.Load() {
			_ = os.RemoveAll(swap)
			_ = os.Symlink(p.outside, swap)
			_ = os.Remove(swap)
			_ = os.Rename(filepath.Join(p.dir, "real"), swap)
			_ = os.Rename(swap, filepath.Join(p.dir, "real"))
			swaps.Add(1)
		}
	})
	mine, tries := 0, 0
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && (swaps.Load() < 3000 || tries < 300); tries++ {
		for name, args := range map[string]string{
			"read":  arguments("path", "swap/secret.txt"),
			"edit":  arguments("path", "swap/secret.txt", "old", "CANARY", "new", "pwned"),
			"write": arguments("path", "swap/pwned", "content", "pwned"),
			"ls":    arguments("path", "swap"),
			"glob":  arguments("pattern", "swap/*"),
			"grep":  arguments("pattern", "CAN|mine"),
		} {
			text, _ := p.run(name, args)
			require.NotContains(t, text, canary, name)
			mine += strings.Count(text, "mine")
		}
	}
	stop.Store(true)
	wg.Wait()
	p.holds("", "races")
	require.Positive(t, mine, "the directory was never there: no race took place")
	require.Greater(t, tries, 20)
}
