package gemini

import (
	"context"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

func listModels(ctx context.Context, get func(path string) ([]byte, error)) ([]ports.Model, error) {
	var list wire.ModelList
	query := url.Values{"pageSize": {"1000"}}
	for range wire.MaxModelPages {
		body, err := get(version + "/models?" + query.Encode())
		if err != nil {
			return nil, err
		}
		page := wire.Members[modelPage](body)
		if err := list.Add(ctx, page.Models, readModel); err != nil {
			return nil, err
		}
		next := wire.String(page.Next)
		if list.Full() || next == "" || next == query.Get("pageToken") {
			break
		}
		query.Set("pageToken", next)
	}
	return list.Models(), nil
}

type modelPage struct {
	Models wire.Raw `json:"models"`
	Next   wire.Raw `json:"nextPageToken"`
}

// readModel returns the model that an entry describes, the zero one when that writes no answers.
func readModel(entry wire.Raw) ports.Model {
	m := wire.Members[struct {
		Name    wire.Raw `json:"name"`
		Window  wire.Raw `json:"inputTokenLimit"`
		Methods wire.Raw `json:"supportedGenerationMethods"`
	}](entry)
	if !generates(m.Methods) {
		return ports.Model{}
	}
	return ports.Model{ID: plainModel(wire.String(m.Name)), ContextWindow: int(wire.Count(m.Window))}
}

// generates reports whether a model of these methods writes answers. One that does not tell them is taken at its word.
func generates(methods wire.Raw) bool {
	tells := false
	for m := range wire.Elements(methods) {
		if tells = true; wire.String(m) == "generateContent" {
			return true
		}
	}
	return !tells
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

var modelVersion = regexp.MustCompile(`^gemini-(\d+)(?:\.(\d+))?`)

// versionOf returns 10 times the version of a Gemini model: 25 for 2.5. Of a name without one it returns that of the
// newest models if it always means them ("gemini-flash-latest"), else 0.
func versionOf(model string) int {
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
