// Package app puts the parts of Keel together: it chooses adapters by configuration and wires them with fx. Nothing
// below it knows fx.
package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/keel-agent/keel/adapters/tools/workspace"
)

// Version is the service's version as clients see it.
const Version = "0.1.0"

// Config is everything that a deployment may choose. The zero value of a field means the default that `keel serve
// --help` names.
type Config struct {
	Listen       string   // host:port
	ReusePort    bool     // share Listen with other processes
	Store        string   // sqlite:PATH, postgres://… or memory:
	Bus          string   // nats://…, between processes on one Postgres; its own notifications when empty
	BusCreds     string   // file with the credentials of a NATS user
	Provider     string   // the default one: fake, openai, openai-responses, anthropic, gemini or auto
	Model        string   // the default model
	Models       string   // file with a catalogue of models
	Script       string   // file with a script for the fake provider
	Auth         string   // off, token or tokens:FILE
	TokenFile    string   // of --auth token; beside the store when empty
	SecretsKeys  string   // file with the keys of tenants' secrets; KEEL_SECRETS_KEY when empty
	AllowedHosts []string // Host names accepted beside the loopback ones

	DirectURL           string        // leads to Postgres itself where Store goes through a pooler
	StoreWait           time.Duration // for another process to free an SQLite store
	AllowUnsafePostgres bool
	MaxConns            int
	MaxPayload          int // bytes

	Workers    int
	Budget     int // attempts per run
	MaxTurns   int // provider calls per attempt
	LeaseTTL   time.Duration
	Heartbeat  time.Duration
	DrainGrace time.Duration
	IdleLimit  time.Duration // silence of a provider's stream

	Workspace   string // directory with one workspace per session; no workspace tools when empty
	Bash        string // off, sandboxed or unconfined
	BashNetwork bool   // sandboxed commands may use the network

	HTTPTools string // file that declares endpoints as tools
	MCP       string // file that declares MCP servers

	CompactAt    float64 // share of a model's window above which contexts are compacted; 0: only when they must be
	CompactKeep  float64 // share of the window that a compaction keeps
	CompactModel string  // that writes the summaries; each session's own when empty

	LogLevel  string // debug, info, warn, error
	LogFormat string // console or json
}

// Stores by the scheme of Config.Store.
const (
	storeSQLite   = "sqlite"
	storePostgres = "postgres"
	storeMemory   = "memory"
)

// storeScheme returns the kind of the store and, for SQLite, its path.
func (c Config) storeScheme() (kind, path string, err error) {
	switch {
	case c.Store == "memory:" || c.Store == "memory":
		return storeMemory, "", nil
	case strings.HasPrefix(c.Store, "postgres://"), strings.HasPrefix(c.Store, "postgresql://"):
		return storePostgres, "", nil
	case strings.HasPrefix(c.Store, "sqlite:") && len(c.Store) > len("sqlite:"):
		return storeSQLite, strings.TrimPrefix(c.Store, "sqlite:"), nil
	}
	return "", "", fmt.Errorf("--store %q: want memory:, postgres://… or sqlite:PATH", c.Store)
}

// directURL leads to Postgres without a pooler between, for what belongs to one connection: LISTEN, and the lock of
// migrations.
func (c Config) directURL() string { return cmp.Or(c.DirectURL, c.Store) }

func (c Config) validateDirectURL() error {
	if c.DirectURL == "" {
		return nil
	}
	kind, _, err := c.storeScheme()
	direct, _, directErr := Config{Store: c.DirectURL}.storeScheme()
	switch {
	case err != nil:
		return err
	case kind != storePostgres:
		return fmt.Errorf("--direct-url is for a Postgres store, and --store is %s", kind)
	case directErr != nil || direct != storePostgres:
		return errors.New("--direct-url: want postgres://…")
	}
	return nil
}

// defaultMaxConns lets enough commands wait for the disk at once. It is well below what servers allow by default.
const defaultMaxConns = 24

// maxConns is the size of the Postgres pool; 0 when the URL says it.
func (c Config) maxConns() int {
	if c.MaxConns == 0 && !strings.Contains(c.Store, "pool_max_conns=") {
		return defaultMaxConns
	}
	return c.MaxConns
}

// maxBody is the largest request: a payload and what may stand around it. 0 means the API's default.
func (c Config) maxBody() int64 {
	if c.MaxPayload == 0 {
		return 0
	}
	return int64(c.MaxPayload) + 64<<10
}

// allowedHosts are the Host names that requests may use. Where every caller needs a token the name proves nothing, so a
// server that listens beyond the loopback interface accepts any unless some are named.
func (c Config) allowedHosts() []string {
	if len(c.AllowedHosts) == 0 && !c.loopback() {
		return []string{"*"}
	}
	return c.AllowedHosts
}

// loopback reports whether the server listens on the loopback interface alone.
func (c Config) loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (c Config) validateBash() error {
	switch {
	case c.Bash != "" && c.Bash != workspace.BashOff && c.Bash != workspace.BashSandboxed && c.Bash != workspace.BashUnconfined:
		return fmt.Errorf("--bash %q: want off, sandboxed or unconfined", c.Bash)
	case c.Bash != "" && c.Bash != workspace.BashOff && c.Workspace == "":
		return fmt.Errorf("--bash %s needs --workspace DIR to work in", c.Bash)
	case c.BashNetwork && c.Bash != workspace.BashSandboxed:
		return errors.New("--bash-network is for --bash sandboxed")
	}
	return nil
}

func (c Config) validateCompaction() error {
	within := func(share, most float64) bool { return share >= 0 && share <= most } // false for what is no number
	switch {
	case !within(c.CompactAt, 1):
		return fmt.Errorf("--compact-at %g: want a share between 0 and 1", c.CompactAt)
	case !within(c.CompactKeep, 0.9):
		return fmt.Errorf("--compact-keep %g: want a share between 0 and 0.9", c.CompactKeep)
	case c.CompactAt > 0 && c.CompactKeep >= c.CompactAt:
		return fmt.Errorf("--compact-keep %g: must be less than --compact-at %g", c.CompactKeep, c.CompactAt)
	}
	return nil
}

// Validate returns an error that says what to change when c cannot work.
func (c Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("--listen %q: want HOST:PORT: %w", c.Listen, err)
	}
	if _, _, err := c.storeScheme(); err != nil {
		return err
	}
	if err := cmp.Or(c.validateDirectURL(), c.validateBus(), c.validateProvider(), c.validateSecrets()); err != nil {
		return err
	}
	if c.Auth == authOff && !c.loopback() {
		return fmt.Errorf("--auth off serves loopback addresses only, and --listen is %q; use --auth token", c.Listen)
	}
	if err := cmp.Or(c.validateBash(), c.validateHTTPTools(), c.validateMCP()); err != nil {
		return err
	}
	if c.LeaseTTL > 0 && c.Heartbeat > 0 && c.Heartbeat*2 > c.LeaseTTL {
		return fmt.Errorf("--heartbeat %s: must be at most half of --lease-ttl %s", c.Heartbeat, c.LeaseTTL)
	}
	if err := c.validateCompaction(); err != nil {
		return err
	}
	for _, n := range []struct {
		flag  string
		value int64
	}{
		{"--workers", int64(c.Workers)}, {"--attempts", int64(c.Budget)}, {"--max-turns", int64(c.MaxTurns)},
		{"--max-payload", int64(c.MaxPayload)}, {"--max-conns", int64(c.MaxConns)}, {"--lease-ttl", int64(c.LeaseTTL)},
		{"--heartbeat", int64(c.Heartbeat)}, {"--drain-grace", int64(c.DrainGrace)}, {"--idle-limit", int64(c.IdleLimit)},
		{"--store-wait", int64(c.StoreWait)},
	} {
		if n.value < 0 {
			return fmt.Errorf("%s must not be negative", n.flag)
		}
	}
	return nil
}

func (c Config) validateProvider() error {
	if names := providerNames(); c.Provider != "" && !slices.Contains(names, c.Provider) {
		return fmt.Errorf("--provider %q: want one of %s", c.Provider, strings.Join(names, ", "))
	}
	return nil
}
