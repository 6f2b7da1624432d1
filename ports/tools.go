package ports

import (
	"context"

	"github.com/keel-agent/keel/domain"
)

// ToolSpec describes a tool to a model and to the runner.
type ToolSpec struct {
	Name        string
	Description string
	Schema      string // JSON Schema of the arguments, an object
	ReplaySafe  bool   // may run again after a crash that left its outcome unknown
	Sequential  bool   // runs beside no other sequential call of its message, but after those that stand before it
}

// Tools is a set of tools that sessions may use.
type Tools interface {
	// Specs returns the tools of the set, sorted by name.
	Specs() []ToolSpec

	// Execute runs one call. Execution is at least once: the same call may run again after a crash, and its ID tells.
	// A tool's own failure, bad arguments included, is a result with IsError; an error is returned only when ctx ended.
	Execute(ctx context.Context, call ToolInvocation) (ToolOutput, error)
}

// LoadingTools is a set whose list takes time to arrive, may change, and may differ between tenants. Its Specs returns
// what is known and the same for all of them, and never waits.
type LoadingTools interface {
	Tools

	// Load returns those of the named tools that the set has for a tenant. It waits for the ones that are not known yet:
	// until they are, until they cannot be for now, or until ctx ends.
	Load(ctx context.Context, tenant string, names []string) []ToolSpec

	// Known returns the names of the tools that the set has for a tenant, sorted, as far as they are known. It waits for no
	// list.
	Known(ctx context.Context, tenant string) []string

	// MayHave reports whether the set has a tool of that name for a tenant, or may have it since that is not known yet.
	MayHave(ctx context.Context, tenant, name string) bool
}

// ToolInvocation is one call to execute.
type ToolInvocation struct {
	Ref       domain.SessionRef
	ID        string // unique in the session
	Name      string
	Arguments string // a JSON object
}

// ToolOutput is what a tool gave.
type ToolOutput struct {
	Content []domain.Block
	IsError bool
}
