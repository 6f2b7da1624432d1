package app_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goFile finds the code blocks of a page that say which file they are.
var goFile = regexp.MustCompile("(?s)```go\n// file: (\\S+)\n\n(.*?)```")

// TestAddingAProviderPage builds the provider of the page, in its place beside the others, and runs its tests: the
// conformance suite of all providers.
func TestAddingAProviderPage(t *testing.T) {
	root := repositoryRoot(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "ADDING-A-PROVIDER.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := goFile.FindAllStringSubmatch(string(page), -1)
	if all := strings.Count(string(page), "```go"); all != len(blocks) || all < 4 {
		t.Fatalf("%d of %d blocks of Go say which file they are", len(blocks), all)
	}
	module, dir := filepath.Join(root, "adapters", "providers"), t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for i, b := range blocks {
		file := filepath.Join(dir, string(rune('a'+i))+"_"+filepath.Base(b[1]))
		if err := os.WriteFile(file, []byte(b[2]), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(module, b[1])] = file
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	// Neither vet nor go test itself gets along with a package whose folder is not there.
	program := filepath.Join(dir, "plain.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", file, "-o", program, "./plain")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(program, "-test.v")
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestConformance") {
		t.Fatalf("%v\n%s", err, out)
	}
}
