// Package mcp offers the tools of Model Context Protocol servers, local processes or remote, over the official SDK.
package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/keel-agent/keel/adapters/tools/declared"
	"github.com/keel-agent/keel/ports"
)

// Server declares one server: a command, or a URL.
type Server struct {
	Command string            `yaml:"command"`
	Args    []string          `yaml:"args"`
	Dir     string            `yaml:"dir"`
	Env     map[string]string `yaml:"env"` // beside PATH and HOME; ${VAR} is the environment's variable VAR

	URL     string            `yaml:"url"`
	Headers map[string]string `yaml:"headers"` // as Env; ${secret:NAME} is a secret of the tenant, each of which then has a connection of its own

	Tools         []string      `yaml:"tools"`         // the server's names of those that are offered; all when empty
	ReplaySafe    []string      `yaml:"replaySafe"`    // those that may run again after a crash
	TrustReadOnly bool          `yaml:"trustReadOnly"` // so may those that the server calls read-only
	Startup       string        `yaml:"startup"`       // eager, the default, or lazy
	Connect       time.Duration `yaml:"connect"`       // for connecting and listing; DefaultConnect when 0
	Timeout       time.Duration `yaml:"timeout"`       // of a call, from its begin or its last progress; DefaultTimeout when 0
	MaxTimeout    time.Duration `yaml:"maxTimeout"`    // of a call, whatever its progress; DefaultMaxTimeout when 0
	MaxOutput     int           `yaml:"maxOutput"`     // bytes of text; output.DefaultLimit when 0
}

// Defaults of a declaration.
const (
	DefaultConnect    = 30 * time.Second
	DefaultTimeout    = time.Minute
	DefaultMaxTimeout = 30 * time.Minute

	longestTimeout = 24 * time.Hour
	largestOutput  = 512 << 10 // what a ledger stores in one event by default, with room for escapes
)

const (
	eager = "eager" // connected as long as this process lives
	lazy  = "lazy"  // listed at start; then connected by a call, and let go after a minute without one
)

// Load reads the declarations of a file, by name. See docs/TOOLS.md.
func Load(path string) (map[string]Server, error) {
	var file struct {
		Servers map[string]Server `yaml:"servers"`
	}
	err := declared.Read(path, &file)
	return file.Servers, err
}

// goodServer makes what stands before the first "__" of a tool's name the server's.
var goodServer = regexp.MustCompile(`^[a-zA-Z0-9-]+(_[a-zA-Z0-9-]+)*$`)

const longestServer = 32

// prepared returns s with its defaults and with the variables that it refers to, and its headers.
func (s Server) prepared(name string, lookup func(string) (string, bool), vault ports.Vault) (Server, declared.Headers, error) {
	if !goodServer.MatchString(name) || len(name) > longestServer {
		return s, declared.Headers{}, fmt.Errorf("the name of a server has at most %d of a-z, A-Z, 0-9, - and single _ within", longestServer)
	}
	s.Startup = cmp.Or(s.Startup, eager)
	s.Connect, s.Timeout = cmp.Or(s.Connect, DefaultConnect), cmp.Or(s.Timeout, DefaultTimeout)
	s.MaxTimeout = cmp.Or(s.MaxTimeout, max(DefaultMaxTimeout, s.Timeout))
	if err := cmp.Or(s.checkPeer(), s.checkLimits()); err != nil {
		return s, declared.Headers{}, err
	}
	var err error
	if s.Env, err = declared.ExpandAll(s.Env, lookup); err != nil {
		return s, declared.Headers{}, fmt.Errorf("env: %w", err)
	}
	for key := range s.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			return s, declared.Headers{}, fmt.Errorf("env: %q is no name of a variable", key)
		}
	}
	headers, err := declared.ParseHeaders(s.Headers, lookup, vault)
	return s, headers, cmp.Or(err, s.checkCommand())
}

// checkCommand finds the directory and the program of a server that is started at once. Those of a lazy server may be
// installed later.
func (s Server) checkCommand() error {
	if s.Command == "" || s.Startup == lazy {
		return nil
	}
	if s.Dir != "" {
		switch info, err := os.Stat(s.Dir); {
		case err != nil:
			return fmt.Errorf("dir: %w", err)
		case !info.IsDir():
			return fmt.Errorf("dir: %s is no directory", s.Dir)
		}
	}
	program := s.Command
	if s.Dir != "" && filepath.Base(program) != program && !filepath.IsAbs(program) { // it is looked for where it runs
		program = s.Dir + string(filepath.Separator) + program
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	return nil
}

func (s Server) checkPeer() error {
	switch {
	case (s.Command == "") == (s.URL == ""):
		return errors.New("want either a command or a url")
	case s.Command != "" && len(s.Headers) > 0:
		return errors.New("headers: belong to a url")
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != ""):
		return errors.New("args, env and dir: belong to a command")
	case s.Command != "":
		return nil
	}
	u, err := url.Parse(s.URL)
	switch {
	case strings.Contains(s.URL, "${"): // it would be sent as it is written
		return errors.New("url: ${…} belongs into headers")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url: want http://… or https://…")
	case u.User != nil:
		return errors.New("url: credentials belong into headers")
	}
	return nil
}

func (s Server) checkLimits() error {
	switch {
	case s.Startup != eager && s.Startup != lazy:
		return fmt.Errorf("startup %q: want eager or lazy", s.Startup)
	case s.MaxOutput < 0 || s.MaxOutput > largestOutput:
		return fmt.Errorf("maxOutput %d: want at most %d", s.MaxOutput, largestOutput)
	case s.MaxTimeout < s.Timeout:
		return fmt.Errorf("maxTimeout %s: want at least the timeout, %s", s.MaxTimeout, s.Timeout)
	}
	for name, d := range map[string]time.Duration{"connect": s.Connect, "timeout": s.Timeout, "maxTimeout": s.MaxTimeout} {
		if d < 0 || d > longestTimeout {
			return fmt.Errorf("%s %s: want at most %s", name, d, longestTimeout)
		}
	}
	if len(s.Tools) > 0 {
		for _, name := range s.ReplaySafe {
			if !slices.Contains(s.Tools, name) {
				return fmt.Errorf("replaySafe: %q is not among the tools", name)
			}
		}
	}
	return nil
}

// environment is the whole environment of a server's process.
func (s Server) environment(lookup func(string) (string, bool)) []string {
	env := map[string]string{}
	for _, key := range []string{"PATH", "HOME"} {
		if value, set := lookup(key); set {
			env[key] = value
		}
	}
	maps.Copy(env, s.Env)
	var list []string
	for key, value := range env {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	return list
}
