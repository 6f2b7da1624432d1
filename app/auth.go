package app

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/keel-agent/keel/adapters/httpapi"
)

// The ways to authenticate callers.
const (
	authOff    = "off"
	authToken  = "token"
	authTokens = "tokens:" // followed by the path of a file
)

// authenticator returns what Config.Auth names. For token it makes the token's file when there is none.
func (c Config) authenticator() (httpapi.Authenticator, error) {
	switch {
	case c.Auth == authOff:
		return httpapi.Open{}, nil
	case c.Auth == "" || c.Auth == authToken:
		token, err := c.ensureToken()
		if err != nil {
			return nil, err
		}
		return httpapi.NewTokens(map[string]string{token: httpapi.DefaultTenant}), nil
	case strings.HasPrefix(c.Auth, authTokens):
		path := strings.TrimPrefix(c.Auth, authTokens)
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--auth: %w", err)
		}
		defer f.Close()
		tokens, err := httpapi.ReadTokens(f)
		if err != nil {
			return nil, fmt.Errorf("--auth %s: %w", path, err)
		}
		return tokens, nil
	}
	return nil, fmt.Errorf("--auth %q: want off, token or tokens:FILE", c.Auth)
}

// TokenPath is where the token of --auth token is kept: beside an SQLite store, else in the user's configuration
// folder.
func (c Config) TokenPath() (string, error) {
	if c.TokenFile != "" {
		return c.TokenFile, nil
	}
	kind, path, err := c.storeScheme()
	if err != nil {
		return "", err
	}
	if kind == storeSQLite {
		return path + ".token", nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no place for the token, name one with --token-file: %w", err)
	}
	return filepath.Join(dir, "keel", "token"), nil
}

// ensureToken returns the token, which it makes, readable by its owner alone, when there is none.
func (c Config) ensureToken() (string, error) {
	path, err := c.TokenPath()
	if err != nil {
		return "", err
	}
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return readToken(path)
	}
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token = base64.RawURLEncoding.EncodeToString(secret)
	_, err = f.WriteString(token + "\n")
	return token, errors.Join(err, f.Close())
}

// ReadToken returns the token of a server on this machine, "" when it has none.
func (c Config) ReadToken() string {
	path, err := c.TokenPath()
	if err != nil {
		return ""
	}
	token, err := readToken(path)
	if err != nil {
		return ""
	}
	return token
}

func readToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("token file %s is empty: delete it to have a new one made", path)
	}
	return token, nil
}
