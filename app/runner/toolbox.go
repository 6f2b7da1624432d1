package runner

import (
	"slices"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// offeredTool is a tool and the set that executes it.
type offeredTool struct {
	spec ports.ToolSpec
	set  ports.Tools
}

// toolbox finds tools by name over all sets; of two with one name the first set's wins.
type toolbox struct{ tools map[string]offeredTool }

func newToolbox(sets []ports.Tools) toolbox {
	found := map[string]offeredTool{}
	for _, set := range sets {
		for _, spec := range set.Specs() {
			if _, taken := found[spec.Name]; !taken {
				found[spec.Name] = offeredTool{spec, set}
			}
		}
	}
	return toolbox{found}
}

// offer returns the named tools that exist.
func (t toolbox) offer(names []string) map[string]offeredTool {
	offered := map[string]offeredTool{}
	for _, name := range names {
		if tool, ok := t.tools[name]; ok {
			offered[name] = tool
		}
	}
	return offered
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
