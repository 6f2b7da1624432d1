// Package compaction keeps contexts within the windows of models: it decides where the older part of a conversation
// gives way to a summary, and has a model write that. The runner says when, and commits it.
package compaction

import (
	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Config tunes a Service.
type Config struct {
	At   float64 // share of the window above which a request is preceded by a compaction; 0: never unless it must be
	Keep float64 // share of the window that a compaction keeps; 0 means 0.2
}

const defaultKeep = 0.2

// Service is a ports.Compactor.
type Service struct{ cfg Config }

var _ ports.Compactor = (*Service)(nil)

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Keep <= 0 {
		cfg.Keep = defaultKeep
	}
	return &Service{cfg}
}

const (
	// Counts beyond these multiples of an estimate are no measure: backends that leave out what was cached, or count
	// something else.
	leastScale, mostScale = 0.5, 4

	// worth is the share of the window that a compaction nobody asked for must free. It bounds how often there is one
	// where the rest of the context is nearly as large as the window.
	worth = 0.05
)

// Load estimates what a request weighs; see ports.Compactor.
func (s *Service) Load(m domain.Model, body ports.ModelRequest, t *domain.Transcript, messages int) ports.Load {
	around := domain.TextTokens(body.System)
	for _, tool := range body.Tools {
		around += domain.TextTokens(tool.Name) + domain.TextTokens(tool.Description) + domain.TextTokens(tool.Schema)
	}
	l := ports.Load{Messages: messages, Tokens: messages + around, Window: m.ContextWindow}
	if last := t.Measured(); last.Counted > 0 {
		scale := float64(last.Counted) / float64(max(last.Estimated+around, 1))
		l.Tokens = int(float64(l.Tokens) * min(max(scale, leastScale), mostScale))
	}
	return l
}

// Due returns where to cut when the load is above the configured share of the window; see ports.Compactor.
func (s *Service) Due(t *domain.Transcript, l ports.Load) domain.Seq {
	window := float64(l.Window)
	if s.cfg.At <= 0 || l.Window <= 0 || float64(l.Tokens) <= s.cfg.At*window {
		return 0
	}
	kept := s.Cut(t, l)
	if kept == 0 || float64(t.TokensBefore(kept))*scaleOf(l) < worth*window {
		return 0
	}
	return kept
}

// Cut returns where to cut so that the configured share is kept: of the window, or of the request when that is the
// smaller one or no window is known. Less is kept where what must stay leaves less than half of that free.
func (s *Service) Cut(t *domain.Transcript, l ports.Load) domain.Seq {
	limit := l.Tokens
	if l.Window > 0 {
		limit = min(limit, l.Window)
	}
	scale := scaleOf(l)
	rest := float64(l.Tokens) - scale*float64(t.Tokens(domain.Presented{}))
	keep := min(s.cfg.Keep*float64(limit), max(s.cfg.Keep, 0.5)*float64(limit)-rest)
	return t.Cut(int(max(keep, 0) / scale))
}

// scaleOf returns how many tokens of the load stand for one that a transcript estimates.
func scaleOf(l ports.Load) float64 {
	return float64(max(l.Tokens, 1)) / float64(max(l.Messages, 1))
}
