package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// project is the prefix of every module path of this workspace.
const project = "github.com/keel-agent/keel/"

// row is a line of the import table: what the packages that match owner may import besides their own subtree.
//
// Patterns are slash-separated; "*" stands for one element, a final "..." for any number of them. Project packages are
// named relative to the project's prefix.
type row struct {
	owner      string
	project    []string // packages of this project
	thirdParty []string // packages of other projects
	deniedStd  []string // standard library packages it must do without
	tests      []string // further packages of this project that its tests may import
}

var (
	anything = []string{"..."}

	// impure is what the core must do without: I/O, context, logs, clocks of the machine, randomness.
	impure = []string{
		"C", "context", "crypto/rand", "database/...", "expvar", "flag", "io/fs", "io/ioutil", "log/...", "math/rand/...",
		"net/...", "os/...", "path/filepath", "plugin", "runtime/...", "sync/...", "syscall/...", "testing/...", "unsafe",
	}
)

// table says who may import whom. The first row that matches a package is its row; a package without a row is a fault.
var table = []row{
	{owner: "domain/...", thirdParty: []string{"github.com/go-json-experiment/json/jsontext"}, deniedStd: impure},
	{owner: "ports/...", project: []string{"domain/..."}, deniedStd: []string{"log/..."}},

	{owner: "adapters/sqlite/...", project: []string{"domain/...", "ports/...", "adapters/sqlstore/..."}, thirdParty: anything},
	{owner: "adapters/postgres/...", project: []string{"domain/...", "ports/...", "adapters/sqlstore/...", "adapters/bus/..."}, thirdParty: anything},
	{owner: "adapters/nats/...", project: []string{"domain/...", "ports/...", "adapters/bus/..."}, thirdParty: anything},
	{owner: "adapters/providers/*/...", project: []string{"domain/...", "ports/...", "adapters/providers/wire/..."}, thirdParty: anything},
	{owner: "adapters/*/...", project: []string{"domain/...", "ports/..."}, thirdParty: anything},

	{owner: "app", project: anything, thirdParty: anything},
	{owner: "app/cmd/...", project: anything, thirdParty: anything},
	{owner: "app/cascade/...", project: []string{"domain/...", "ports/..."}, tests: anything},
	{owner: "app/*/...", project: []string{"domain/...", "ports/...", "app/cascade/..."}, thirdParty: []string{"go.uber.org/zap/...", "golang.org/x/..."}, tests: anything},

	{owner: "bench/...", project: anything, thirdParty: anything},
	{owner: "mutants"},
	{owner: "torture/...", project: anything, thirdParty: anything},
}

// reserved names the third-party packages that only some packages may import, tests included.
var reserved = map[string][]string{
	"go.uber.org/fx/...":         {"app", "app/cmd/..."},
	"go.uber.org/dig/...":        {"app", "app/cmd/..."},
	"github.com/gorilla/mux/...": {"adapters/httpapi"},

	"github.com/modelcontextprotocol/...": {"adapters/tools/mcp"},
}

// testSupport names third-party packages that exist for tests in this project, though not by their names.
var testSupport = []string{"github.com/nats-io/nats-server/..."}

// outside names the modules that are tests alone and take minutes to build: no part of the workspace.
var outside = []string{"adapters/providers/differential"}

// muxFile is the one file that knows the router.
const muxFile = "adapters/httpapi/router.go"

// clockOrZone are the members of package time that read the machine's clock or zone, or wait.
var clockOrZone = []string{"After", "AfterFunc", "LoadLocation", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// match reports whether name matches pattern, and returns the part of name that the pattern spells out before "...".
func match(pattern, name string) (string, bool) {
	patternElems, open := strings.Split(pattern, "/"), false
	if last := len(patternElems) - 1; patternElems[last] == "..." {
		patternElems, open = patternElems[:last], true
	}
	elems := strings.Split(name, "/")
	if len(elems) < len(patternElems) || len(elems) > len(patternElems) && !open {
		return "", false
	}
	for i, want := range patternElems {
		if want != "*" && want != elems[i] {
			return "", false
		}
	}
	return strings.Join(elems[:len(patternElems)], "/"), true
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { _, ok := match(p, name); return ok })
}

// isTestSupport reports whether the package exists for tests alone, such as domaintest and portstest, or httptest.
func isTestSupport(importPath string) bool {
	return strings.HasSuffix(path.Base(importPath), "test") || matchAny(testSupport, importPath)
}

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
	IgnoredGoFiles                     []string
	Error                              *struct{ Err string }
}

// violations returns a sentence for each import of the package that breaks a rule.
func violations(pkg listed) []string {
	name, ours := strings.CutPrefix(pkg.ImportPath, project)
	var own string
	i := slices.IndexFunc(table, func(r row) (ok bool) { own, ok = match(r.owner, name); return ok })
	if !ours || i < 0 {
		return []string{fmt.Sprintf("%s: no row of the import table matches this package", pkg.ImportPath)}
	}
	r := table[i]

	var found []string
	check := func(imports []string, inTest bool) {
		for _, imp := range imports {
			if why := r.refuses(name, own, imp, inTest); why != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", pkg.ImportPath, imp, why))
			}
		}
	}
	check(pkg.Imports, isTestSupport(pkg.ImportPath))
	check(slices.Concat(pkg.TestImports, pkg.XTestImports), true)
	return found
}

// refuses returns why the package may not import imp, or "". Own is the root of the package's own subtree.
func (r row) refuses(name, own, imp string, inTest bool) string {
	if !inTest && isTestSupport(imp) {
		return "production code never imports a package that exists for tests"
	}
	for pattern, owners := range reserved {
		if _, ok := match(pattern, imp); ok && !matchAny(owners, name) {
			return fmt.Sprintf("only %s may import it", strings.Join(owners, " and "))
		}
	}
	if target, ok := strings.CutPrefix(imp, project); ok {
		allowed := append([]string{own + "/..."}, r.project...)
		if inTest {
			allowed = append(allowed, r.tests...)
		}
		if !matchAny(allowed, target) {
			return fmt.Sprintf("of this project, %s may import only %s", r.owner, strings.Join(allowed, ", "))
		}
		return ""
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		if !inTest && matchAny(r.deniedStd, imp) {
			return fmt.Sprintf("%s must do without this package of the standard library", r.owner)
		}
		return ""
	}
	if !inTest && !matchAny(r.thirdParty, imp) {
		if len(r.thirdParty) == 0 {
			return fmt.Sprintf("%s may import no third-party package", r.owner)
		}
		return fmt.Sprintf("of third parties, %s may import only %s", r.owner, strings.Join(r.thirdParty, ", "))
	}
	return ""
}

func TestArchImports(t *testing.T) {
	root := repositoryRoot(t)
	for _, dir := range moduleDirs(t, root) {
		if slices.Contains(outside, dir) {
			continue
		}
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			for _, pkg := range listPackages(t, filepath.Join(root, dir)) {
				if pkg.Error != nil {
					t.Errorf("%s: %s", pkg.ImportPath, pkg.Error.Err)
				}
				for _, violation := range violations(pkg) {
					t.Error(violation)
				}
			}
		})
	}
}

func TestArchMuxInOneFile(t *testing.T) {
	root := repositoryRoot(t)
	used := false
	eachGoFile(t, filepath.Join(root, path.Dir(muxFile)), func(file string) {
		if !slices.ContainsFunc(fileImports(t, file, nil), func(imp string) bool {
			_, ok := match("github.com/gorilla/mux/...", imp)
			return ok
		}) {
			return
		}
		if rel := relative(t, root, file); rel != muxFile {
			t.Errorf("%s imports gorilla/mux: only %s may", rel, muxFile)
		}
		used = true
	})
	if !used {
		t.Errorf("%s no longer imports gorilla/mux: this rule checks nothing", muxFile)
	}
}

func TestArchDomainReadsNoClock(t *testing.T) {
	root := repositoryRoot(t)
	files := 0
	eachGoFile(t, filepath.Join(root, "domain"), func(file string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		files++
		for _, use := range clockUses(t, file, nil) {
			t.Errorf("%s: the domain reads no clock and no zone: the time comes with the command", strings.TrimPrefix(use, root+string(filepath.Separator)))
		}
	})
	if files == 0 {
		t.Error("found no file in domain")
	}
}

// clockUses returns "file:line:column: time.Name" for every member of package time in clockOrZone that the file names.
// Like go/parser, it reads the file unless src is given.
func clockUses(t *testing.T, file string, src any) []string {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	local := ""
	for _, spec := range parsed.Imports {
		if spec.Path.Value != `"time"` {
			continue
		}
		local = "time"
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == "." {
			found = append(found, fmt.Sprintf("%s: import . %q", fset.Position(spec.Pos()), "time"))
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && local != "" && x.Name == local && slices.Contains(clockOrZone, selector.Sel.Name) {
			found = append(found, fmt.Sprintf("%s: time.%s", fset.Position(n.Pos()), selector.Sel.Name))
		}
		return true
	})
	return found
}

func TestArchWorkspaceListsEveryModule(t *testing.T) {
	root := repositoryRoot(t)
	var work struct{ Use []struct{ DiskPath string } }
	goJSON(t, root, &work, "work", "edit", "-json", "go.work")
	var used []string
	for _, use := range work.Use {
		used = append(used, path.Clean(use.DiskPath))
	}
	used = append(used, outside...)
	slices.Sort(used)
	if dirs := moduleDirs(t, root); !slices.Equal(used, dirs) {
		t.Errorf("go.work uses, and outside of it are,\n\t%v\nthe tree has go.mod files in\n\t%v", used, dirs)
	}
}

// modFile is what go mod edit -json prints, as far as it matters here.
type modFile struct {
	Module  struct{ Path string }
	Require []struct{ Path string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func TestArchSiblingsAreReplaced(t *testing.T) {
	root := repositoryRoot(t)
	for _, dir := range moduleDirs(t, root) {
		var mod modFile
		goJSON(t, filepath.Join(root, dir), &mod, "mod", "edit", "-json")
		for _, fault := range siblingFaults(dir, mod) {
			t.Errorf("%s/go.mod: %s", dir, fault)
		}
	}
}

// siblingFaults checks the go.mod of the module in dir, a path relative to the repository.
func siblingFaults(dir string, mod modFile) []string {
	var faults []string
	if mod.Module.Path != project+dir {
		faults = append(faults, fmt.Sprintf("the module path is %s, the directory asks for %s", mod.Module.Path, project+dir))
	}
	replaced := map[string]bool{}
	for _, replace := range mod.Replace {
		sibling, ours := strings.CutPrefix(replace.Old.Path, project)
		target := replace.New.Path
		relative := strings.HasPrefix(target, "./") || strings.HasPrefix(target, "../")
		switch {
		case !ours:
			faults = append(faults, fmt.Sprintf("replaces %s: only siblings are replaced", replace.Old.Path))
		case !relative || path.Join(dir, target) != sibling:
			faults = append(faults, fmt.Sprintf("replaces %s by %s, which is not the relative path of %s", replace.Old.Path, target, sibling))
		case replace.Old.Version != "":
			faults = append(faults, fmt.Sprintf("replaces only version %s of %s", replace.Old.Version, replace.Old.Path))
		default:
			replaced[replace.Old.Path] = true
		}
	}
	for _, require := range mod.Require {
		if strings.HasPrefix(require.Path, project) && !replaced[require.Path] {
			faults = append(faults, fmt.Sprintf("requires %s without replacing it by a relative path", require.Path))
		}
	}
	return faults
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

// The rules above must be able to fail: each is shown a fault here, through the function that judges the real tree.
func TestArchRulesCanFail(t *testing.T) {
	const (
		fine     = ""
		noRow    = "no row"
		testOnly = "exists for tests"
		only     = "only"
		without  = "must do without"
		none     = "no third-party"
	)
	for _, c := range []struct{ pkg, imp, production, test string }{
		{"domain", "fmt", fine, fine},
		{"domain", "time", fine, fine},
		{"domain", "github.com/go-json-experiment/json/jsontext", fine, fine},
		{"domain", "github.com/go-json-experiment/json", only, fine},
		{"domain", "context", without, fine},
		{"domain", "log", without, fine},
		{"domain", "log/slog", without, fine},
		{"domain", "math/rand", without, fine},
		{"domain", "math/rand/v2", without, fine},
		{"domain", "crypto/rand", without, fine},
		{"domain", "crypto/sha256", fine, fine},
		{"domain", "os", without, fine},
		{"domain", "os/exec", without, fine},
		{"domain", "net/url", without, fine},
		{"domain", "database/sql", without, fine},
		{"domain", "pgregory.net/rapid", only, fine},
		{"domain", project + "domain/domaintest", testOnly, fine},
		{"domain", project + "ports", only, only},
		{"domain/domaintest", "pgregory.net/rapid", fine, fine},
		{"domain/domaintest", project + "domain", fine, fine},
		{"domain/domaintest", project + "ports", only, only},
		{"ports", "context", fine, fine},
		{"ports", "log/slog", without, fine},
		{"ports", project + "domain", fine, fine},
		{"ports", project + "domain/domaintest", testOnly, fine},
		{"ports", project + "adapters/memory", only, only},
		{"ports", "go.uber.org/zap", none, fine},
		{"ports/portstest", "github.com/stretchr/testify/require", fine, fine},
		{"ports/portstest", project + "adapters/memory", only, only},
		{"adapters/memory", project + "ports", fine, fine},
		{"adapters/memory", project + "ports/portstest", testOnly, fine},
		{"adapters/memory", project + "adapters/sqlstore", only, only},
		{"adapters/memory", "net/http/httptest", testOnly, fine},
		{"adapters/memory", "go.uber.org/zap", fine, fine},
		{"adapters/memory", "go.uber.org/fx", only, only},
		{"adapters/memory", "github.com/gorilla/mux", only, only},
		{"adapters/sqlite", project + "adapters/sqlstore", fine, fine},
		{"adapters/sqlite", project + "adapters/postgres", only, only},
		{"adapters/postgres", project + "adapters/sqlstore", fine, fine},
		{"adapters/postgres", project + "adapters/bus", fine, fine},
		{"adapters/postgres", project + "app/service", only, only},
		{"adapters/nats", project + "adapters/bus", fine, fine},
		{"adapters/nats", project + "adapters/sqlstore", only, only},
		{"adapters/nats", "github.com/nats-io/nats-server/v2/server", testOnly, fine},
		{"adapters/sqlstore", project + "adapters/sqlite", only, only},
		{"adapters/httpapi", "github.com/gorilla/mux", fine, fine},
		{"adapters/httpapi", project + "adapters/sse", only, only},
		{"adapters/httpapi", project + "adapters/httpapi/schema", fine, fine},
		{"adapters/httpapi/schema", "github.com/gorilla/mux", only, only},
		{"adapters/providers/openai", project + "adapters/providers/wire", fine, fine},
		{"adapters/providers/openai", project + "adapters/providers/fake", only, only},
		{"adapters/providers/wire", project + "adapters/providers/openai", only, only},
		{"adapters/tools/mcp", project + "adapters/tools/workspace", fine, fine},
		{"adapters/tools/mcp", project + "adapters/providers/wire", only, only},
		{"adapters/tools/mcp", "github.com/modelcontextprotocol/go-sdk/mcp", fine, fine},
		{"adapters/tools/http", "github.com/modelcontextprotocol/go-sdk/mcp", only, only},
		{"app/service", project + "ports", fine, fine},
		{"app/service", project + "domain", fine, fine},
		{"app/service", "go.uber.org/zap", fine, fine},
		{"app/service", "go.uber.org/zap/zapcore", fine, fine},
		{"app/service", "golang.org/x/sync/errgroup", fine, fine},
		{"app/service", "github.com/google/uuid", only, fine},
		{"app/service", "go.uber.org/fx", only, only},
		{"app/service", project + "adapters/memory", only, fine},
		{"app/service", project + "app/runner", only, fine},
		{"app/service", project + "app/cascade", fine, fine},
		{"app/cascade", project + "app/service", only, fine},
		{"app/service", project + "app/service/quota", fine, fine},
		{"app", "go.uber.org/fx", fine, fine},
		{"app", "go.uber.org/fx/fxtest", testOnly, fine},
		{"app", project + "adapters/postgres", fine, fine},
		{"app", "github.com/gorilla/mux", only, only},
		{"app/cmd/keel", "go.uber.org/fx", fine, fine},
		{"app/cmd/keel", project + "app", fine, fine},
		{"app/cmd/keel", project + "ports/portstest", testOnly, fine},
		{"adapters", "fmt", noRow, noRow},
		{"cmd/other", "fmt", noRow, noRow},
	} {
		expect := func(kind, want string, pkg listed) {
			got := violations(pkg)
			if want == fine && len(got) > 0 || want != fine && (len(got) != 1 || !strings.Contains(got[0], want) || !strings.Contains(got[0], pkg.ImportPath)) {
				t.Errorf("%s of %s importing %s: got %q, want %q", kind, c.pkg, c.imp, got, want)
			}
		}
		expect("production", c.production, listed{ImportPath: project + c.pkg, Imports: []string{c.imp}})
		expect("test", c.test, listed{ImportPath: project + c.pkg, TestImports: []string{c.imp}})
		expect("external test", c.test, listed{ImportPath: project + c.pkg, XTestImports: []string{c.imp}})
	}
	if got := violations(listed{ImportPath: "example.org/elsewhere"}); len(got) != 1 {
		t.Errorf("a foreign package: got %q", got)
	}

	for src, want := range map[string]int{
		`package p; import "time"; func f(t time.Time) time.Duration { return t.Sub(t) + time.Second }`: 0,
		`package p; import "time"; func f(now time.Time) time.Time { return now }; var d = time.UTC`:    0,
		`package p; import "time"; var t = time.Now()`:                                                  1,
		`package p; import "time"; var clock = time.Now`:                                                1,
		`package p; import clock "time"; func f() { clock.Sleep(1); <-clock.After(1) }`:                 2,
		`package p; import . "time"; var t = Now()`:                                                     1,
		`package p; type c struct{}; func (c) Now() int { return 0 }; var time c; var n = time.Now()`:   0,
	} {
		if got := clockUses(t, "fake.go", src); len(got) != want {
			t.Errorf("clock uses of %s: got %q, want %d", src, got, want)
		}
	}

	if got := fileImports(t, "fake.go", `package p; import m "github.com/gorilla/mux"`); !slices.Equal(got, []string{"github.com/gorilla/mux"}) {
		t.Errorf("imports: got %q", got)
	}

	for text, want := range map[string]string{
		`{"Module":{"Path":"` + project + `adapters/x"},"Require":[{"Path":"` + project + `domain"},{"Path":"example.org/y"}],"Replace":[{"Old":{"Path":"` + project + `domain"},"New":{"Path":"../../domain"}}]}`: "",
		`{"Module":{"Path":"` + project + `adapters/y"}}`:                                                                                        "the directory asks for",
		`{"Module":{"Path":"` + project + `adapters/x"},"Require":[{"Path":"` + project + `domain"}]}`:                                           "without replacing it",
		`{"Module":{"Path":"` + project + `adapters/x"},"Replace":[{"Old":{"Path":"` + project + `domain"},"New":{"Path":"../domain"}}]}`:        "not the relative path",
		`{"Module":{"Path":"` + project + `adapters/x"},"Replace":[{"Old":{"Path":"` + project + `domain"},"New":{"Path":"/srv/keel/domain"}}]}`: "not the relative path",
		`{"Module":{"Path":"` + project + `adapters/x"},"Replace":[{"Old":{"Path":"example.org/y"},"New":{"Path":"../y"}}]}`:                     "only siblings",
	} {
		var mod modFile
		if err := json.Unmarshal([]byte(text), &mod); err != nil {
			t.Fatal(err)
		}
		if got := siblingFaults("adapters/x", mod); want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
