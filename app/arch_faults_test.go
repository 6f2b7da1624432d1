package app_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The rules of arch_test.go and its neighbours must be able to fail: each is shown a fault here, through the function that judges the real tree.
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
