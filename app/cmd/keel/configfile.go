package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
)

// configPath finds the configuration file before the command line is parsed: --config, else KEEL_CONFIG, else none.
func configPath(args []string) string {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--config="); ok {
			return v
		}
		if a == "--config" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return os.Getenv("KEEL_CONFIG")
}

// fileResolver gives flags their values from a YAML file whose keys are flag names, unless the environment has one.
func fileResolver(path string) kong.Resolver {
	k := koanf.New("/")
	var loadErr error
	if path != "" {
		loadErr = k.Load(file.Provider(path), yaml.Parser())
	}
	known := map[string]bool{}
	return &resolver{k: k, err: loadErr, path: path, known: known}
}

type resolver struct {
	k     *koanf.Koanf
	err   error
	path  string
	known map[string]bool
}

// Validate refuses a file that cannot be read or has a key that is no flag of any command.
func (r *resolver) Validate(app *kong.Application) error {
	if r.err != nil {
		return fmt.Errorf("--config %s: %w", r.path, r.err)
	}
	flags := map[string]bool{}
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			flags[f.Name] = true
		}
		return next(nil)
	})
	for _, key := range r.k.Keys() {
		if !flags[key] {
			return fmt.Errorf("--config %s: there is no setting %q", r.path, key)
		}
	}
	return nil
}

func (r *resolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if _, set := os.LookupEnv(env); set {
			return nil, nil //nolint:nilnil // kong: no value from here
		}
	}
	if r.k.Get(flag.Name) == nil { // absent, or without a value
		return nil, nil //nolint:nilnil // kong: no value from here
	}
	if list, ok := r.k.Get(flag.Name).([]any); ok {
		parts := make([]string, len(list))
		for i, v := range list {
			parts[i] = fmt.Sprint(v)
		}
		return strings.Join(parts, ","), nil
	}
	return fmt.Sprint(r.k.Get(flag.Name)), nil
}
