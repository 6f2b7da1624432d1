package app_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
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
