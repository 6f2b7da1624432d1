package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// lab runs the tests of the tree at root.
type lab struct {
	root    string
	verbose bool
}

// passes returns an error unless the tests of all bugs pass while none is planted.
func (l lab) passes(ctx context.Context, bugs []bug) error {
	tests := map[string][]string{}
	var packages []string
	for _, b := range bugs {
		if tests[b.pkg] == nil {
			packages = append(packages, b.pkg)
		}
		if !slices.Contains(tests[b.pkg], b.test) {
			tests[b.pkg] = append(tests[b.pkg], b.test)
		}
	}
	for _, pkg := range packages {
		for _, test := range tests[pkg] {
			out, err := l.test(ctx, "", pkg, test)
			switch {
			case err != nil:
				return fmt.Errorf("%s fails in %s without any bug: %w\n%s", test, pkg, err, out)
			case bytes.Contains(out, []byte("no tests to run")):
				return fmt.Errorf("there is no test %s in %s", test, pkg)
			}
		}
	}
	return nil
}

// kills returns nil when the test of b fails as it should once b is planted.
func (l lab) kills(ctx context.Context, b bug) error {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := l.plant(ctx, b, dir)
	if err != nil {
		return err
	}
	out, err := l.test(ctx, overlay, b.pkg, b.test)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return fmt.Errorf("%s in %s passes: %s", b.test, b.pkg, b.why)
	case !errors.As(err, &exit):
		return err
	case !bytes.Contains(out, []byte("--- FAIL: ")):
		return fmt.Errorf("the test did not run:\n%s", out)
	case !strings.Contains(plain(out), b.says):
		return fmt.Errorf("the test fails, but does not say %q:\n%s", b.says, out)
	}
	return nil
}

// plain joins what a test printed into one line, since assertions wrap their messages.
func plain(out []byte) string { return strings.Join(strings.Fields(string(out)), " ") }

// plant writes the patched files to dir and returns the overlay that puts them in the tree's place.
func (l lab) plant(ctx context.Context, b bug, dir string) (overlay string, err error) {
	root, err := filepath.Abs(l.root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, name := range b.files {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		copied := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = copied
	}
	patch, err := filepath.Abs(b.patch)
	if err != nil {
		return "", err
	}
	apply := exec.CommandContext(ctx, "git", "apply", patch)
	apply.Dir = dir
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the patch no longer applies: %w\n%s", err, out)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// test runs one test. An overlay goes through GOFLAGS, so that programs which the test builds have the bug too.
func (l lab) test(ctx context.Context, overlay, pkg, test string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=3m", "-run", test, pkg)
	cmd.Dir = l.root
	cmd.Env = os.Environ()
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	out, err := cmd.CombinedOutput()
	if l.verbose {
		_, _ = os.Stderr.Write(out)
	}
	return out, err
}
