package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/tools/workspace"
)

func TestRead(t *testing.T) {
	r := newRig(t, workspace.Config{})
	r.put("a.txt", "one\r\ntwo\n\nfour")
	r.good("read", `{"path":"a.txt"}`, "1\tone\n2\ttwo\n3\t\n4\tfour\n")
	r.good("read", `{"path":"./x/../a.txt","offset":2,"limit":1}`, "2\ttwo\n[more lines follow: go on with offset 3]")
	r.good("read", `{"path":"a.txt","offset":4}`, "4\tfour\n")
	r.bad("read", `{"path":"a.txt","offset":5}`, "only 4 lines")
	r.bad("read", `{"path":"b.txt"}`, `there is no "b.txt"`)
	r.bad("read", `{"path":"."}`, "is a directory")
	r.put("empty", "")
	r.good("read", `{"path":"empty"}`, "[the file is empty]")
	r.put("bin", "ELF\x00\x01")
	r.bad("read", `{"path":"bin"}`, "binary file of 5 bytes")
	r.put("latin", "caf\xe9\n")
	r.good("read", `{"path":"latin"}`, "1\tcaf\uFFFD\n")
	r.put("bytes", strings.Repeat("\x80", 3000)+"\n")
	r.good("read", `{"path":"bytes"}`, "1\t\uFFFD\n")
	r.put("wide", strings.Repeat("a", 1999)+"é!\n")
	r.good("read", `{"path":"wide"}`, "1\t"+strings.Repeat("a", 1999)+" [cut: 3 more bytes]\n")
	r.put("long", strings.Repeat("line\n", 3000))
	got, _ := r.run("read", `{"path":"long"}`)
	require.Equal(t, 2000, strings.Count(got, "line\n"))
	require.True(t, strings.HasSuffix(got, "[more lines follow: go on with offset 2001]"))
	r.put("fat", strings.Repeat(strings.Repeat("x", 1500)+"\n", 100))
	got, _ = r.run("read", `{"path":"fat"}`)
	require.Less(t, len(got), 64<<10)
	require.Contains(t, got, "go on with offset")
}

// A refusal says what is wrong with the path that the model gave, and nothing of the server's own.
func TestWhyPathsAreRefused(t *testing.T) {
	r := newRig(t, workspace.Config{})
	r.put("f", "")
	require.NoError(t, os.Symlink("..", filepath.Join(r.dir, "up")))
	for _, c := range [][2]string{
		{`a\u0000`, "has a NUL character"}, {"/etc/passwd", "is absolute: paths are relative to the workspace"},
		{"../x", `the path "../x" leads out of the workspace`}, {"up/x", `the path "up/x" leads out of the workspace`},
		{"f/x", `"f/x": not a directory`}, {"none", `there is no "none" in the workspace`},
	} {
		text, isError := r.run("read", `{"path":"`+c[0]+`"}`)
		require.True(t, isError)
		require.Contains(t, text, c[1])
		require.NotContains(t, text, r.dir)
		require.NotContains(t, text, "openat")
	}
	require.NoError(t, os.Symlink("../x", filepath.Join(r.dir, "out")))
	r.bad("write", `{"path":"out","content":""}`, `"out" is a symbolic link that leads out of the workspace`)
}

func TestWrite(t *testing.T) {
	r := newRig(t, workspace.Config{})
	r.good("write", `{"path":"a/b/c.txt","content":"héllo\n"}`, "wrote 7 bytes to a/b/c.txt")
	require.Equal(t, "héllo\n", r.content("a/b/c.txt"))
	r.put("run.sh", "old")
	require.NoError(t, os.Chmod(filepath.Join(r.dir, "run.sh"), 0o750))
	r.good("write", `{"path":"run.sh","content":""}`, "wrote 0 bytes to run.sh")
	info, err := os.Stat(filepath.Join(r.dir, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), info.Mode().Perm(), "it keeps its mode")
	require.NoError(t, os.Symlink("a/b/c.txt", filepath.Join(r.dir, "link")))
	r.good("write", `{"path":"link","content":"through"}`, "wrote 7 bytes to link")
	require.Equal(t, "through", r.content("a/b/c.txt"))
	last := "link"
	for i := range 7 {
		next := fmt.Sprint("link", i+2)
		require.NoError(t, os.Symlink(last, filepath.Join(r.dir, next)))
		last = next
	}
	r.good("write", `{"path":"link7","content":"far"}`, "wrote 3 bytes to link7")
	require.Equal(t, "far", r.content("a/b/c.txt"))
	r.bad("write", `{"path":"link8","content":""}`, "too many symbolic links")
	r.bad("write", `{"path":"a","content":""}`, "is a directory")
	r.bad("write", `{"path":"a/b/c.txt/d","content":""}`, "not a directory")
	r.bad("write", `{"path":"`+strings.Repeat("n", 300)+`","content":""}`, "name too long")
	entries, err := os.ReadDir(r.dir)
	require.NoError(t, err)
	require.Len(t, entries, 10, "nothing else is left")
}

func TestEdit(t *testing.T) {
	r := newRig(t, workspace.Config{})
	r.put("a.go", "x := 1\ny := 1\n")
	r.good("edit", `{"path":"a.go","old":"x := 1","new":"x := 2"}`, "replaced 1 in a.go")
	require.Equal(t, "x := 2\ny := 1\n", r.content("a.go"))
	r.bad("edit", `{"path":"a.go","old":":=","new":"="}`, "2 times")
	r.good("edit", `{"path":"a.go","old":":=","new":"=","replaceAll":true}`, "replaced 2 in a.go")
	require.Equal(t, "x = 2\ny = 1\n", r.content("a.go"))
	r.bad("edit", `{"path":"a.go","old":"z","new":"y"}`, `old is not in "a.go"`)
	r.bad("edit", `{"path":"a.go","old":"x","new":"x"}`, "the same")
	r.bad("edit", `{"path":"none","old":"x","new":"y"}`, "there is no")
	r.bad("edit", `{"path":"a.go","old":"","new":"y"}`, "minLength")
}

func TestLs(t *testing.T) {
	r := newRig(t, workspace.Config{})
	r.good("ls", `{}`, "[the directory is empty]")
	r.put("b/x", "")
	r.put("a.txt", "12345")
	require.NoError(t, os.Symlink("a.txt", filepath.Join(r.dir, "c")))
	r.good("ls", `{"path":""}`, "a.txt (5 bytes)\nb/\nc -> a.txt\n")
	r.good("ls", `{"path":"b"}`, "x (0 bytes)\n")
	r.bad("ls", `{"path":"a.txt"}`, "no directory")
	r.put("odd/two\nlines", "")
	r.good("ls", `{"path":"odd"}`, "\"two\\nlines\" (0 bytes)\n")
	for i := range 1001 {
		r.put(fmt.Sprintf("many/%04d", i), "")
	}
	got, _ := r.run("ls", `{"path":"many"}`)
	require.True(t, strings.HasPrefix(got, "0000 (0 bytes)\n0001"))
	require.True(t, strings.HasSuffix(got, "0999 (0 bytes)\n[cut: 1000 of 1001 entries]"))
}

func TestGlob(t *testing.T) {
	r := newRig(t, workspace.Config{})
	for _, name := range []string{"a.go", "src/b.go", "src/deep/c.go", "src/d.ts", ".git/e.go"} {
		r.put(name, "")
	}
	r.good("glob", `{"pattern":"**/*.go"}`, "a.go\nsrc/b.go\nsrc/deep/c.go")
	r.good("glob", `{"pattern":"*.go"}`, "a.go")
	r.good("glob", `{"pattern":"./src/*.{go,ts}"}`, "src/b.go\nsrc/d.ts")
	r.good("glob", `{"pattern":"*.go","path":"src"}`, "src/b.go")
	r.good("glob", `{"pattern":"*.rs"}`, "[no file matches]")
	r.bad("glob", `{"pattern":"[a"}`, "malformed")
	r.bad("glob", `{"pattern":"`+strings.Repeat("{a,b}", 10)+`"}`, "more than 1000 patterns")
	r.bad("grep", `{"pattern":"a","include":"`+strings.Repeat("{a,b,c,d}", 100)+`"}`, "more than 1000 patterns")
	r.bad("glob", `{"pattern":"*","path":"none"}`, "there is no")
	for i := range 1001 {
		r.put(fmt.Sprintf("many/%04d", i), "")
	}
	got, _ := r.run("glob", `{"pattern":"many/*"}`)
	require.True(t, strings.HasSuffix(got, "many/0999\n[cut: the first 1000 files]"))
}

func TestGrep(t *testing.T) {
	r := newRig(t, workspace.Config{})
	r.put("a.go", "package a\nfunc Foo() {}\r\n")
	r.put("src/b.go", "// foo\nfunc Foo2() {}\n")
	r.put("src/c.ts", "function Foo() {}")
	r.put("bin", "Foo\x00")
	r.put(".git/config", "Foo")
	r.good("grep", `{"pattern":"func\\w* Foo"}`, "a.go:2:func Foo() {}\nsrc/b.go:2:func Foo2() {}\nsrc/c.ts:1:function Foo() {}\n")
	r.good("grep", `{"pattern":"^//.FOO$","ignoreCase":true}`, "src/b.go:1:// foo\n")
	r.good("grep", `{"pattern":"Foo","include":"*.ts"}`, "src/c.ts:1:function Foo() {}\n")
	r.good("grep", `{"pattern":"Foo","include":"src/*.go"}`, "src/b.go:2:func Foo2() {}\n")
	r.good("grep", `{"pattern":"Foo","path":"a.go"}`, "a.go:2:func Foo() {}\n")
	r.good("grep", `{"pattern":"nowhere"}`, "[no line matches]\n")
	r.bad("grep", `{"pattern":"("}`, "no RE2 regular expression")
	r.bad("grep", `{"pattern":"x","include":"["}`, "malformed")
	r.bad("grep", `{"pattern":"x","path":"none"}`, "there is no")
	r.put("many", strings.Repeat("Foo "+strings.Repeat("é", 200)+"\n", 300))
	got, _ := r.run("grep", `{"pattern":"Foo","path":"many"}`)
	require.Equal(t, 200, strings.Count(got, "many:"))
	require.Contains(t, got, " [cut: 154 more bytes]\n", "a long line is cut between characters")
	require.True(t, strings.HasSuffix(got, "[cut: the first 200 lines that match]\n"))
	require.NoError(t, os.Truncate(filepath.Join(r.dir, "many"), 5<<20))
	r.good("grep", `{"pattern":"Foo","path":"many"}`, "[no line matches]\n[1 files of more than 4194304 bytes were passed over]\n")
}
