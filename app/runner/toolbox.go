package runner

import (
	"context"
	"slices"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// offeredTool is a tool and the set that executes it.
type offeredTool struct {
	spec ports.ToolSpec
	set  ports.Tools
}

// toolbox finds tools by name over all sets, as they are at the time; of two with one name the first set's wins.
type toolbox []ports.Tools

// loadLimit is how long a request waits for sets that are still loading the tools which it names.
const loadLimit = 15 * time.Second

// offer returns the named tools that exist for a tenant. It waits for what a process that just began does not know yet,
// so that no call which it takes over is refused for that.
func (t toolbox) offer(ctx context.Context, tenant string, names []string) map[string]offeredTool {
	offered := map[string]offeredTool{}
	if len(names) == 0 {
		return offered
	}
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	for _, set := range t {
		for _, spec := range specsOf(ctx, set, tenant, names) {
			if _, taken := offered[spec.Name]; !taken && slices.Contains(names, spec.Name) {
				offered[spec.Name] = offeredTool{spec, set}
			}
		}
	}
	return offered
}

func specsOf(ctx context.Context, set ports.Tools, tenant string, names []string) []ports.ToolSpec {
	if loading, ok := set.(ports.LoadingTools); ok {
		return loading.Load(ctx, tenant, names)
	}
	return set.Specs()
}

// specs returns what a model is told of the offered tools, in the order of names.
func specs(names []string, offered map[string]offeredTool) []ports.ToolSpec {
	var list []ports.ToolSpec
	for i, name := range names {
		if tool, ok := offered[name]; ok && !slices.Contains(names[:i], name) {
			list = append(list, tool.spec)
		}
	}
	return list
}

// mustStart returns the ids of the calls that need a durable mark before they run: those whose effects must not be
// repeated.
func mustStart(blocks []domain.Block, offered map[string]offeredTool) []string {
	var ids []string
	for _, c := range planned(blocks, nil, offered) {
		if c.refusal == "" && !c.tool.spec.ReplaySafe {
			ids = append(ids, c.block.ID)
		}
	}
	return ids
}
