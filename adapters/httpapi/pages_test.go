package httpapi

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// notBuilt marks the routes of a page that the API does not have.
const notBuilt = "not built yet"

var (
	routeRow  = regexp.MustCompile("(?m)^\\| (`[^|]*)\\|(.*)\\|$")
	routeSpan = regexp.MustCompile("`(?:([A-Z][A-Z ·]*) )?(/[^`]*)`")
)

// routesOf returns the routes in the tables of a page, and the paths of those that are marked as not built. A span
// without methods has those of the span before it.
func routesOf(t *testing.T, page string) (built, marked []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, row := range routeRow.FindAllStringSubmatch(string(text), -1) {
		methods := ""
		for _, span := range routeSpan.FindAllStringSubmatch(row[1], -1) {
			if span[1] != "" {
				methods = span[1]
			}
			if strings.Contains(row[2], notBuilt) {
				marked = append(marked, span[2])
				continue
			}
			for method := range strings.SplitSeq(methods, " · ") {
				built = append(built, method+" "+span[2])
			}
		}
	}
	return built, marked
}

// What the API has is in the tables of both pages, and what they mark as not built is not there.
func TestPagesAgreeWithTheRouter(t *testing.T) {
	var served, paths []string
	for _, r := range (&api{}).routes() {
		if r.path != indexPath { // a page for people
			paths = append(paths, r.path)
			for method := range r.methods {
				served = append(served, method+" "+r.path)
			}
		}
	}
	for page, some := range map[string]bool{"../../docs/spec/protocol.md": true, "../../docs/PROTOCOL.md": false} {
		built, marked := routesOf(t, page)
		require.ElementsMatch(t, served, built, page)
		require.Equal(t, some, len(marked) > 0, page)
		for _, m := range marked {
			require.False(t, slices.ContainsFunc(paths, func(p string) bool { return p == m || strings.HasPrefix(p, m+"/") }), "%s: %s is built", page, m)
		}
	}
}

// Each code is in the table of the clients' page, with its status, and no other is.
func TestCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/PROTOCOL.md")
	require.NoError(t, err)
	documented := map[string]int{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([1-5][0-9]{2}) \\| .+ \\|$").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]], err = strconv.Atoi(row[2])
		require.NoError(t, err)
	}
	require.Equal(t, statuses, documented)
}
