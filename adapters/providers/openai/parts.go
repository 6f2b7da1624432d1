package openai

import (
	"strings"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/domain"
)

// content takes a text, or a list of typed parts of text and thinking.
func (d *decoder) content(raw wire.Raw) {
	if wire.IsNull(raw) {
		return
	}
	if raw.Kind() == '"' {
		d.Append(domain.TextBlock, raw)
		return
	}
	for _, e := range list(raw) {
		o := wire.Object(e)
		switch t := wire.String(o["type"]); {
		case o == nil:
			d.Append(domain.TextBlock, e)
		case strings.Contains(t, "thinking") || strings.Contains(t, "reasoning"):
			for _, inner := range texts(e) {
				d.Append(domain.ThinkingBlock, inner)
			}
		default:
			d.Append(domain.TextBlock, o["text"])
		}
	}
}

// thinkingOf returns the pieces of thinking in m. Backends that have several members for it repeat themselves in them.
func thinkingOf(m delta) []wire.Raw {
	for _, raw := range []wire.Raw{m.ReasoningContent, m.Reasoning, m.ReasoningDetails} {
		if pieces := texts(raw); len(pieces) > 0 {
			return pieces
		}
	}
	return nil
}

// texts returns the non-empty strings of a text, of an object that holds one, or of a list of either.
func texts(raw wire.Raw) (found []wire.Raw) {
	switch {
	case wire.IsNull(raw) || string(raw) == `""`:
	case raw.Kind() == '"':
		found = append(found, raw)
	default:
		for _, e := range list(raw) {
			if e.Kind() != '{' {
				found = append(found, texts(e)...)
				continue
			}
			o := wire.Object(e)
			for _, name := range []string{"text", "summary", "content", "thinking"} {
				if inner := texts(o[name]); len(inner) > 0 {
					found = append(found, inner...)
					break
				}
			}
		}
	}
	return found
}
