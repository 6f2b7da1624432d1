package app_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The rules of arch_test.go and its neighbours must be able to fail: each is shown a fault here, through the function that judges the real tree.

// What a refusal says.
const (
	noRow    = "no row"
	testOnly = "exists for tests"
	only     = "only"
	without  = "must do without"
	none     = "no third-party"
)

// imports are those of a package: the ones it may have, and by what is said about them the ones that only its tests may have and
// that even they may not. One of this project begins with "./".
var imports = []struct {
	pkg     string
	may     string
	inTests map[string]string
	never   map[string]string
}{
	{
		pkg: "domain",
		may: "fmt time github.com/go-json-experiment/json/jsontext crypto/sha256",
		inTests: map[string]string{
			only:     "github.com/go-json-experiment/json pgregory.net/rapid",
			without:  "context log log/slog math/rand math/rand/v2 crypto/rand os os/exec net/url database/sql",
			testOnly: "./domain/domaintest",
		},
		never: map[string]string{only: "./ports"},
	},
	{pkg: "domain/domaintest", may: "pgregory.net/rapid ./domain", never: map[string]string{only: "./ports"}},
	{
		pkg:     "ports",
		may:     "context ./domain",
		inTests: map[string]string{without: "log/slog", testOnly: "./domain/domaintest", none: "go.uber.org/zap"},
		never:   map[string]string{only: "./adapters/memory"},
	},
	{pkg: "ports/portstest", may: "github.com/stretchr/testify/require", never: map[string]string{only: "./adapters/memory"}},
	{
		pkg:     "adapters/memory",
		may:     "./ports go.uber.org/zap",
		inTests: map[string]string{testOnly: "./ports/portstest net/http/httptest"},
		never:   map[string]string{only: "./adapters/sqlstore go.uber.org/fx github.com/gorilla/mux"},
	},
	{pkg: "adapters/sqlite", may: "./adapters/sqlstore", never: map[string]string{only: "./adapters/postgres"}},
	{pkg: "adapters/postgres", may: "./adapters/sqlstore ./adapters/bus", never: map[string]string{only: "./app/service"}},
	{
		pkg:     "adapters/nats",
		may:     "./adapters/bus",
		inTests: map[string]string{testOnly: "github.com/nats-io/nats-server/v2/server"},
		never:   map[string]string{only: "./adapters/sqlstore"},
	},
	{pkg: "adapters/sqlstore", never: map[string]string{only: "./adapters/sqlite"}},
	{pkg: "adapters/httpapi", may: "github.com/gorilla/mux ./adapters/httpapi/schema", never: map[string]string{only: "./adapters/sse"}},
	{pkg: "adapters/httpapi/schema", never: map[string]string{only: "github.com/gorilla/mux"}},
	{pkg: "adapters/providers/openai", may: "./adapters/providers/wire", never: map[string]string{only: "./adapters/providers/fake"}},
	{pkg: "adapters/providers/wire", never: map[string]string{only: "./adapters/providers/openai"}},
	{
		pkg:   "adapters/tools/mcp",
		may:   "./adapters/tools/workspace github.com/modelcontextprotocol/go-sdk/mcp",
		never: map[string]string{only: "./adapters/providers/wire"},
	},
	{pkg: "adapters/tools/http", never: map[string]string{only: "github.com/modelcontextprotocol/go-sdk/mcp"}},
	{
		pkg:     "app/service",
		may:     "./ports ./domain go.uber.org/zap go.uber.org/zap/zapcore golang.org/x/sync/errgroup ./app/cascade ./app/service/quota",
		inTests: map[string]string{only: "github.com/google/uuid ./adapters/memory ./app/runner"},
		never:   map[string]string{only: "go.uber.org/fx"},
	},
	{pkg: "app/cascade", inTests: map[string]string{only: "./app/service"}},
	{
		pkg:     "app",
		may:     "go.uber.org/fx ./adapters/postgres",
		inTests: map[string]string{testOnly: "go.uber.org/fx/fxtest"},
		never:   map[string]string{only: "github.com/gorilla/mux"},
	},
	{pkg: "app/cmd/keel", may: "go.uber.org/fx ./app", inTests: map[string]string{testOnly: "./ports/portstest"}},
	{pkg: "adapters", never: map[string]string{noRow: "fmt"}},
	{pkg: "cmd/other", never: map[string]string{noRow: "fmt"}},
}

func TestImportRulesCanFail(t *testing.T) {
	for _, c := range imports {
		checkImports(t, c.pkg, c.may, "", "")
		for why, list := range c.inTests {
			checkImports(t, c.pkg, list, why, "")
		}
		for why, list := range c.never {
			checkImports(t, c.pkg, list, why, why)
		}
	}
	if got := violations(listed{ImportPath: "example.org/elsewhere"}); len(got) != 1 {
		t.Errorf("a foreign package: got %q", got)
	}
}

// checkImports holds what is said about each import of a list, of production code and of tests, "" for nothing.
func checkImports(t *testing.T, pkg, list, production, test string) {
	for imp := range strings.FieldsSeq(list) {
		if ours, ok := strings.CutPrefix(imp, "./"); ok {
			imp = project + ours
		}
		path, one := project+pkg, []string{imp}
		checkViolations(t, production, listed{ImportPath: path, Imports: one})
		checkViolations(t, test, listed{ImportPath: path, TestImports: one})
		checkViolations(t, test, listed{ImportPath: path, XTestImports: one})
	}
}

func checkViolations(t *testing.T, want string, pkg listed) {
	got := violations(pkg)
	if want == "" && len(got) == 0 {
		return
	}
	if want == "" || len(got) != 1 || !strings.Contains(got[0], want) || !strings.Contains(got[0], pkg.ImportPath) {
		t.Errorf("%+v: got %q, want %q", pkg, got, want)
	}
}

func TestClockRuleCanFail(t *testing.T) {
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
}

func TestFileImports(t *testing.T) {
	if got := fileImports(t, "fake.go", `package p; import m "github.com/gorilla/mux"`); !slices.Equal(got, []string{"github.com/gorilla/mux"}) {
		t.Errorf("imports: got %q", got)
	}
}

func TestSiblingRuleCanFail(t *testing.T) {
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
