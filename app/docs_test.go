package app_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goFile finds the code blocks of a page that say which file they are, diff those that change a file of the repository.
var (
	goFile = regexp.MustCompile("(?s)```go\n// file: (\\S+)\n\n(.*?)```")
	diff   = regexp.MustCompile("(?s)```diff\n--- (\\S+)\n(.*?)\n```")
)

// TestAddingAProviderPage builds the provider of the page, in its place beside the others, and runs its tests: the
// conformance suite of all providers among them. Then it builds keel with the changes of the page.
func TestAddingAProviderPage(t *testing.T) {
	root := repositoryRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "ADDING-A-PROVIDER.md"))
	require.NoError(t, err)
	page := string(text)
	blocks := goFile.FindAllStringSubmatch(page, -1)
	require.GreaterOrEqual(t, len(blocks), 4)
	require.Len(t, blocks, strings.Count(page, "```go"), "blocks of Go that say which file they are")
	o := overlay{dir: t.TempDir(), Replace: map[string]string{}}
	for _, b := range blocks {
		o.put(t, filepath.Join(root, "adapters", "providers", b[1]), b[2])
	}
	// Neither vet nor go test itself gets along with a package whose folder is not there.
	program := filepath.Join(o.dir, "plain.test")
	o.run(t, filepath.Join(root, "adapters", "providers"), "go", "test", "-c", "-vet=off", "-overlay", o.write(t), "-o", program, "./plain")
	require.Contains(t, o.run(t, o.dir, program, "-test.v"), "--- PASS: TestConformance")

	changes := diff.FindAllStringSubmatch(page, -1)
	require.Len(t, changes, strings.Count(page, "```diff"), "changes that say of which file")
	for _, c := range changes {
		o.put(t, filepath.Join(root, c[1]), changed(t, filepath.Join(root, c[1]), c[2]))
	}
	keel := filepath.Join(o.dir, "keel")
	o.run(t, filepath.Join(root, "app"), "go", "build", "-overlay", o.write(t), "-o", keel, "./cmd/keel")
	serve := exec.Command(keel, "serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--auth", "off", "--provider", "plain")
	serve.Env = []string{"PLAIN_BASE_URL=ftp://x"}
	out, err := serve.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "provider plain: the base URL must be an http or https URL")
}

// overlay is what go build -overlay reads: files in place of those of the tree.
type overlay struct {
	dir     string
	Replace map[string]string
}

func (o overlay) put(t *testing.T, path, text string) {
	file := filepath.Join(o.dir, strings.ReplaceAll(path, string(filepath.Separator), "_"))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	o.Replace[path] = file
}

func (o overlay) write(t *testing.T) string {
	list, err := json.Marshal(o)
	require.NoError(t, err)
	file := filepath.Join(o.dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, list, 0o600))
	return file
}

func (o overlay) run(t *testing.T, dir, program string, args ...string) string {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// changed returns a file with the hunks of a change, each of which has to find its place, and one place alone.
func changed(t *testing.T, path, hunks string) string {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	file := string(text)
	for hunk := range strings.SplitSeq(hunks, "\n@@\n") {
		before, after := sides(hunk)
		require.Equal(t, 1, strings.Count(file, before), "%s: %s", path, before)
		file = strings.Replace(file, before, after, 1)
	}
	return file
}

// sides returns the text that a hunk is about, without and with its change.
func sides(hunk string) (before, after string) {
	var was, is []string
	for line := range strings.SplitSeq(hunk, "\n") {
		switch mark, rest := line[:1], line[1:]; mark {
		case "-":
			was = append(was, rest)
		case "+":
			is = append(is, rest)
		default:
			was, is = append(was, rest), append(is, rest)
		}
	}
	return strings.Join(was, "\n"), strings.Join(is, "\n")
}
