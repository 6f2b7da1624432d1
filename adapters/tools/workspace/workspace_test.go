package workspace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/workspace"
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// rig is a set of workspace tools and the session that uses it.
type rig struct {
	t     *testing.T
	tools ports.Tools
	base  string // directory of all workspaces
	dir   string // workspace of the session
	ref   domain.SessionRef
}

func newRig(t *testing.T, c workspace.Config) *rig {
	t.Helper()
	c.Dir = filepath.Join(t.TempDir(), "workspaces")
	tools, err := workspace.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tools.Close()) })
	r := &rig{t: t, tools: tools, base: c.Dir, dir: filepath.Join(c.Dir, "t", "s"), ref: domain.SessionRef{Tenant: "t", Session: "s"}}
	require.NoError(t, os.MkdirAll(r.dir, 0o700))
	return r
}

func (r *rig) call(ctx context.Context, name, args string) (ports.ToolOutput, error) {
	return r.tools.Execute(ctx, ports.ToolInvocation{Ref: r.ref, ID: "c1", Name: name, Arguments: args})
}

func (r *rig) run(name, args string) (text string, isError bool) {
	r.t.Helper()
	out, err := r.call(r.t.Context(), name, args)
	require.NoError(r.t, err)
	require.Len(r.t, out.Content, 1)
	require.NotEmpty(r.t, out.Content[0].Text)
	return out.Content[0].Text, out.IsError
}

func (r *rig) good(name, args, want string) {
	r.t.Helper()
	got, isError := r.run(name, args)
	require.False(r.t, isError, "%s %s: %s", name, args, got)
	require.Equal(r.t, want, got, "%s %s", name, args)
}

func (r *rig) bad(name, args, want string) {
	r.t.Helper()
	got, isError := r.run(name, args)
	require.True(r.t, isError, "%s %s: %s", name, args, got)
	require.Contains(r.t, got, want, "%s %s", name, args)
	require.NotContains(r.t, got, r.base, "paths of the server are nobody's business")
}

func (r *rig) put(name, content string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(r.t, os.WriteFile(path, []byte(content), 0o600))
}

func (r *rig) content(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	require.NoError(r.t, err)
	return string(data)
}

func TestSpecs(t *testing.T) {
	specs := map[string]ports.ToolSpec{}
	for _, s := range newRig(t, workspace.Config{}).tools.Specs() {
		specs[s.Name] = s
		require.True(t, s.Sequential, "%s: calls on one workspace keep the order of the message", s.Name)
		require.Equal(t, s.Name != "edit", s.ReplaySafe, s.Name)
	}
	require.Len(t, specs, 6)
	require.NotContains(t, specs, "bash", "off is the default")
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	none := []workspace.Sandbox{
		{Name: "first", Probe: func() error { return errors.New("no namespaces") }},
		{Name: "second", Probe: func() error { return errors.New("not installed") }},
	}
	for want, c := range map[string]workspace.Config{
		"no directory":      {},
		"not a directory":   {Dir: file},
		"off, sandboxed or": {Dir: dir, Bash: "on"},
		"no sandbox works here; first: no namespaces; second: not installed": {Dir: dir, Bash: workspace.BashSandboxed, Sandboxes: none},
		"no sandbox works here": {Dir: dir, Bash: workspace.BashSandboxed, Sandboxes: []workspace.Sandbox{}},
	} {
		_, err := workspace.New(c)
		require.ErrorContains(t, err, want)
	}
}

func TestEachSessionHasItsOwn(t *testing.T) {
	r := newRig(t, workspace.Config{})
	ids := []string{"s", "S", "..", ".", "", "a/b", "a%2fb", "a b", "ä", "a\u0308", "-", "CON", "~", strings.Repeat("x", 300), strings.Repeat("x", 301)}
	write := func(ref domain.SessionRef, content string) {
		out, err := r.tools.Execute(t.Context(), ports.ToolInvocation{
			Ref: ref, Name: "write", Arguments: `{"path":"id","content":"` + content + `"}`,
		})
		require.NoError(t, err)
		require.False(t, out.IsError, out.Content)
	}
	for _, tenant := range ids {
		for _, session := range ids {
			write(domain.SessionRef{Tenant: tenant, Session: session}, tenant+"|"+session)
		}
	}
	names := map[string]bool{}
	files := 0
	require.NoError(t, filepath.WalkDir(r.base, func(path string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		if e.IsDir() {
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), path)
			return nil
		}
		files++
		names[strings.ToLower(path)] = true
		require.Equal(t, 3, strings.Count(strings.TrimPrefix(path, r.base), string(filepath.Separator)), path)
		return nil
	}))
	require.Equal(t, len(ids)*len(ids), files)
	require.Len(t, names, files, "ids that differ by case alone")
}

func TestWorkspaceThatIsALink(t *testing.T) {
	r := newRig(t, workspace.Config{})
	r.put("file", "of another session")
	require.NoError(t, os.Symlink("s", filepath.Join(r.base, "t", "link")))
	r.ref.Session = "link"
	r.bad("read", `{"path":"file"}`, "cannot be opened")
}
