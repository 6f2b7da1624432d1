package gemini

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

// maxPages bounds the pages of a list of models: a backend may always say that there is more.
const maxPages = 20

// Models lists what the backend lists and can be asked for an answer; see wire.Catalogue.
func (p *Provider) Models(ctx context.Context, credential ports.Confidential) ([]ports.Model, error) {
	return p.catalogue.Models(ctx, credential)
}

func listModels(ctx context.Context, backend *wire.Backend) ([]ports.Model, error) {
	var found []ports.Model
	query := url.Values{"pageSize": {"1000"}}
	for range maxPages {
		body, err := backend.Get(ctx, version+"/models?"+query.Encode())
		if err != nil {
			return nil, err
		}
		page := wire.Object(body)
		found = appendModels(found, wire.Array(page["models"]))
		next := wire.String(page["nextPageToken"])
		if next == "" || next == query.Get("pageToken") {
			break
		}
		query.Set("pageToken", next)
	}
	return found, nil
}

func appendModels(found []ports.Model, entries []wire.Raw) []ports.Model {
	for _, e := range entries {
		o := wire.Object(e)
		m := ports.Model{ID: plainModel(wire.String(o["name"])), ContextWindow: int(wire.Count(o["inputTokenLimit"]))}
		if m.ID != "" && generates(o) && !slices.ContainsFunc(found, func(f ports.Model) bool { return f.ID == m.ID }) {
			found = append(found, m)
		}
	}
	return found
}

// generates reports whether a model writes answers. One that does not tell its methods is taken at its word.
func generates(model map[string]wire.Raw) bool {
	methods := wire.Array(model["supportedGenerationMethods"])
	return len(methods) == 0 || slices.ContainsFunc(methods, func(m wire.Raw) bool { return wire.String(m) == "generateContent" })
}

// plainModel returns the name of a model without the collection that it is listed in.
func plainModel(name string) string { return strings.TrimPrefix(strings.TrimSpace(name), "models/") }

// modelPath returns where a model is asked. Tuned models have a collection of their own.
func modelPath(model string) string {
	collection, name, ok := strings.Cut(model, "/")
	if !ok || collection != "tunedModels" {
		collection, name = "models", model
	}
	return version + "/" + collection + "/" + url.PathEscape(name) + ":streamGenerateContent?alt=sse"
}

var (
	modelVersion = regexp.MustCompile(`^gemini-(\d+)(?:\.(\d+))?`)
	modelSuffix  = regexp.MustCompile(`-(latest|preview.*|exp.*|\d{3})$`)
)

// generation returns 10 times the version of a Gemini model: 25 for 2.5. Of a name without one it returns that of the
// newest models if it always means them ("gemini-flash-latest"), else 0.
func generation(model string) int {
	m := modelVersion.FindStringSubmatch(model)
	if m == nil {
		if strings.HasPrefix(model, "gemini-") && strings.HasSuffix(model, "-latest") {
			return newest
		}
		return 0
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2]) // "" is 0
	return 10*major + min(minor, 9)
}

// The versions, times 10, from which on models can do something.
const (
	thinksByBudget = 25
	thinksByLevel  = 30
	wantsSignature = 30
	newest         = thinksByLevel
)

// family returns the name of a model without what differs between its releases.
func family(model string) string { return modelSuffix.ReplaceAllString(plainModel(model), "") }
