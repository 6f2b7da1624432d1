package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
	IgnoredGoFiles                     []string
	Error                              *struct{ Err string }
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.work")); err != nil {
		t.Fatal(err)
	}
	return root
}

// eachFile calls visit for every file of the tree, leaving out what the go command leaves out too, and node_modules.
func eachFile(t *testing.T, root string, visit func(file string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if file != root && entry.IsDir() && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules") {
			return fs.SkipDir
		}
		if !entry.IsDir() {
			visit(file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func eachGoFile(t *testing.T, root string, visit func(file string)) {
	t.Helper()
	eachFile(t, root, func(file string) {
		if strings.HasSuffix(file, ".go") {
			visit(file)
		}
	})
}

// moduleDirs returns the directories with a go.mod, relative to the repository and sorted.
func moduleDirs(t *testing.T, root string) []string {
	t.Helper()
	var dirs []string
	eachFile(t, root, func(file string) {
		if filepath.Base(file) == "go.mod" {
			dirs = append(dirs, relative(t, root, filepath.Dir(file)))
		}
	})
	if len(dirs) < 2 {
		t.Fatalf("found the modules %v in %s", dirs, root)
	}
	slices.Sort(dirs)
	return dirs
}

func relative(t *testing.T, root, file string) string {
	t.Helper()
	rel, err := filepath.Rel(root, file)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(rel)
}

// listPackages returns the packages of the module in dir. Files that a build constraint leaves out count as well.
func listPackages(t *testing.T, dir string) []listed {
	t.Helper()
	out := goCommand(t, dir, "list", "-e", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,IgnoredGoFiles,Error", "./...")
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg listed
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		for _, file := range pkg.IgnoredGoFiles {
			imports := fileImports(t, filepath.Join(pkg.Dir, file), nil)
			if strings.HasSuffix(file, "_test.go") {
				pkg.TestImports = append(pkg.TestImports, imports...)
			} else {
				pkg.Imports = append(pkg.Imports, imports...)
			}
		}
		packages = append(packages, pkg)
	}
}

func fileImports(t *testing.T, file string, src any) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var imports []string
	for _, spec := range parsed.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		imports = append(imports, imp)
	}
	return imports
}

func goJSON(t *testing.T, dir string, v any, args ...string) {
	t.Helper()
	if err := json.Unmarshal(goCommand(t, dir, args...), v); err != nil {
		t.Fatal(err)
	}
}

func goCommand(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), dir, err, stderr.Bytes())
	}
	return out
}
