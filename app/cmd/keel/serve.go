package main

import (
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/keel-agent/keel/app"
)

// serveFlags are the settings of a server.
type serveFlags struct {
	Listen       string   `help:"HOST:PORT to listen on." default:"127.0.0.1:8420" env:"KEEL_LISTEN"`
	ReusePort    bool     `help:"Let other processes listen on the address too (SO_REUSEPORT). When one of them ends, connections that wait for it are reset: better hand the socket on." env:"KEEL_REUSE_PORT"`
	Store        string   `help:"Where ledgers are kept: sqlite:PATH, postgres://… or memory: (lost at exit)." default:"sqlite:keel.db" env:"KEEL_STORE"`
	Bus          string   `help:"nats://HOST:PORT that wakes other processes on the same Postgres and brings them partial output; Postgres itself does when empty." env:"KEEL_BUS" placeholder:"URL"`
	BusCreds     string   `help:"File with the credentials of a NATS user." type:"existingfile" env:"KEEL_BUS_CREDS" placeholder:"FILE"`
	Provider     string   `help:"Default model provider: fake, openai, openai-responses, anthropic, gemini, or auto (openai when OPENAI_API_KEY or OPENAI_BASE_URL is set, openai-responses if OPENAI_WIRE=responses besides, else anthropic when ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL is, else gemini when GEMINI_API_KEY, GOOGLE_API_KEY or GEMINI_BASE_URL is, else fake). Other configured ones answer to PROVIDER/MODEL." enum:"auto,fake,openai,openai-responses,anthropic,gemini" default:"auto" env:"KEEL_PROVIDER"`
	Model        string   `help:"Model for sessions that name none; the provider's default when empty." env:"KEEL_MODEL"`
	Models       string   `help:"YAML or JSON file with a catalogue of models: prices, limits, defaults. Tenants may lay their own over it." type:"existingfile" env:"KEEL_MODELS" placeholder:"FILE"`
	Script       string   `help:"JSON file with a script for the fake provider." type:"existingfile" env:"KEEL_SCRIPT" placeholder:"FILE"`
	Auth         string   `help:"off (loopback only), token (one generated token) or tokens:FILE (lines of token and tenant)." default:"token" env:"KEEL_AUTH"`
	TokenFile    string   `help:"File of the generated token; beside an SQLite store by default." env:"KEEL_TOKEN_FILE" placeholder:"FILE"`
	AllowedHosts []string `help:"Host names that requests may use beside the loopback ones, * for any; when the server listens beyond loopback, any is the default." env:"KEEL_ALLOWED_HOSTS" placeholder:"HOST"`

	secretsFlags

	DirectURL           string        `name:"direct-url" help:"Postgres URL without a pooler, for LISTEN and migrations, where --store leads through one in transaction mode." env:"KEEL_DIRECT_URL" placeholder:"URL"`
	StoreWait           time.Duration `help:"How long to wait for another process to free an SQLite store; an error at once when 0. A successor by SIGHUP always waits for as long as a drain may take." default:"0s" env:"KEEL_STORE_WAIT"`
	AllowUnsafePostgres bool          `help:"Serve although Postgres may lose or mangle what it acknowledges." env:"KEEL_ALLOW_UNSAFE_POSTGRES"`
	MaxConns            int           `help:"Postgres connections of the pool; 24, or pool_max_conns of the URL, when 0." env:"KEEL_MAX_CONNS"`
	MaxPayload          int           `help:"Bytes of one event's payload." default:"1048576" env:"KEEL_MAX_PAYLOAD"`

	Workers    int           `help:"Attempts at a time." default:"64" env:"KEEL_WORKERS"`
	Attempts   int           `help:"Attempts that a run may spend before it fails." default:"5" env:"KEEL_ATTEMPTS"`
	MaxTurns   int           `help:"Provider calls of one attempt." default:"50" env:"KEEL_MAX_TURNS"`
	LeaseTTL   time.Duration `name:"lease-ttl" help:"How long a silent process keeps its runs." default:"15s" env:"KEEL_LEASE_TTL"`
	Heartbeat  time.Duration `help:"Time between beats." default:"5s" env:"KEEL_HEARTBEAT"`
	DrainGrace time.Duration `help:"How long attempts may go on after SIGTERM before they are handed back." default:"30s" env:"KEEL_DRAIN_GRACE"`
	IdleLimit  time.Duration `help:"How long a provider's stream may be silent." default:"5m" env:"KEEL_IDLE_LIMIT"`

	Workspace   string `help:"Directory in which each session has a workspace for the tools read, write, edit, ls, glob and grep; they are absent when empty." env:"KEEL_WORKSPACE" placeholder:"DIR"`
	Bash        string `help:"Tool bash: off, sandboxed (refuses to start where no sandbox works) or unconfined (all that the server may do)." enum:"off,sandboxed,unconfined" default:"off" env:"KEEL_BASH"`
	BashNetwork bool   `help:"Sandboxed commands may use the network." env:"KEEL_BASH_NETWORK"`

	HTTPTools string `name:"http-tools" help:"YAML file that declares HTTP endpoints as tools; see docs/TOOLS.md." type:"existingfile" env:"KEEL_HTTP_TOOLS" placeholder:"FILE"`
	MCP       string `name:"mcp" help:"YAML file that declares MCP servers, whose tools sessions may use; see docs/TOOLS.md." type:"existingfile" env:"KEEL_MCP" placeholder:"FILE"`

	CompactAt    float64 `help:"Share of the model's context window above which a conversation is compacted before the next request; 0 compacts only what a backend refuses or a client asks for." default:"0.8" env:"KEEL_COMPACT_AT"`
	CompactKeep  float64 `help:"Share of the window that a compaction keeps word for word." default:"0.2" env:"KEEL_COMPACT_KEEP"`
	CompactModel string  `help:"Model that writes the summaries; the session's own when empty." env:"KEEL_COMPACT_MODEL"`

	LogLevel  string `help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info" env:"KEEL_LOG_LEVEL"`
	LogFormat string `help:"console or json." enum:"console,json" default:"console" env:"KEEL_LOG_FORMAT"`
}

func (f serveFlags) config() (app.Config, error) {
	c := app.Config{
		Listen: f.Listen, ReusePort: f.ReusePort, Store: f.Store, StoreWait: f.StoreWait, DirectURL: f.DirectURL, Bus: f.Bus, BusCreds: f.BusCreds, Provider: f.Provider,
		Model: f.Model, Models: f.Models, Script: f.Script, Auth: f.Auth, TokenFile: f.TokenFile, AllowedHosts: f.AllowedHosts, SecretsKeys: f.SecretsKeyFile,
		AllowUnsafePostgres: f.AllowUnsafePostgres,
		MaxConns:            f.MaxConns, MaxPayload: f.MaxPayload, Workers: f.Workers, Budget: f.Attempts, MaxTurns: f.MaxTurns,
		LeaseTTL: f.LeaseTTL, Heartbeat: f.Heartbeat, DrainGrace: f.DrainGrace, IdleLimit: f.IdleLimit,
		Workspace: f.Workspace, Bash: f.Bash, BashNetwork: f.BashNetwork,
		HTTPTools: f.HTTPTools, MCP: f.MCP,
		CompactAt: f.CompactAt, CompactKeep: f.CompactKeep, CompactModel: f.CompactModel,
		LogLevel: f.LogLevel, LogFormat: f.LogFormat,
	}
	return c, c.Validate()
}

type serveCmd struct{ serveFlags }

// Run serves until SIGINT or SIGTERM, or until a successor has taken over.
func (s *serveCmd) Run() error {
	c, err := s.config()
	if err != nil {
		return err
	}
	log, err := newLogger(c)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	return app.Serve(c, log)
}

func newLogger(c app.Config) (*zap.Logger, error) {
	cfg := zap.NewProductionConfig()
	cfg.Sampling = nil
	if c.LogFormat == "console" {
		cfg.Encoding = "console"
		cfg.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
		cfg.EncoderConfig.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		cfg.EncoderConfig.EncodeLevel = zapcore.CapitalLevelEncoder
	}
	level, err := zapcore.ParseLevel(c.LogLevel)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	cfg.Level = zap.NewAtomicLevelAt(level)
	cfg.DisableCaller, cfg.DisableStacktrace = true, true
	return cfg.Build()
}

type graphCmd struct{ serveFlags }

// Run prints the object graph of the server that the flags describe, without starting it.
func (g *graphCmd) Run() error {
	c, err := g.config()
	if err != nil {
		return err
	}
	dot, err := app.Graph(c)
	if err != nil {
		return err
	}
	_, err = fmt.Println(dot)
	return err
}
