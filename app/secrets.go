package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.uber.org/fx"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/postgres"
	"github.com/keel-agent/keel/adapters/sqlite"
	"github.com/keel-agent/keel/app/secrets"
	"github.com/keel-agent/keel/ports"
)

var secretsModule = fx.Module("secrets", fx.Provide(newVault))

// secretsKeyEnv holds the keys where no file does. It is no flag: what processes are started with can be seen by others.
const secretsKeyEnv = "KEEL_SECRETS_KEY"

// secretKeys returns the configured keys, nil when there are none.
func (c Config) secretKeys() (*secrets.Keyring, error) {
	env := os.Getenv(secretsKeyEnv)
	switch {
	case c.SecretsKeys != "" && env != "":
		return nil, fmt.Errorf("--secrets-key-file and %s are both given: take one of them away", secretsKeyEnv)
	case c.SecretsKeys != "":
		text, err := os.ReadFile(c.SecretsKeys)
		if err != nil {
			return nil, fmt.Errorf("--secrets-key-file: %w", err)
		}
		return named("--secrets-key-file "+c.SecretsKeys, string(text))
	case env != "":
		return named(secretsKeyEnv, env)
	}
	return nil, nil
}

func named(source, text string) (*secrets.Keyring, error) {
	keys, err := secrets.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return keys, nil
}

func (c Config) validateSecrets() error {
	_, err := c.secretKeys()
	return err
}

// newVault returns nil when no key is configured: there are no secrets then.
func newVault(c Config, store ports.Secrets, clock ports.Clock, log *zap.Logger) (*secrets.Vault, error) {
	keys, err := c.secretKeys()
	if err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, warnOfUnused(store, log)
	}
	if c.SecretsKeys != "" {
		warnOfExposed(log, "the keys of the secrets", c.SecretsKeys)
	}
	return secrets.New(store, keys, clock), nil
}

// warnOfUnused tells when there are secrets that nobody can open.
func warnOfUnused(store ports.Secrets, log *zap.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	found, err := store.All(ctx, "", "", 1)
	if len(found) > 0 {
		log.Warn("the store holds secrets of tenants, and no key is configured to open them: runs use the server's own credentials")
	}
	return err
}

// warnOfExposed tells when others than the owner's group can read a file.
func warnOfExposed(log *zap.Logger, what, path string) {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.FileMode(0o004) != 0 {
		log.Warn("everyone on this machine can read "+what, zap.String("file", path))
	}
}

var (
	errNoKey     = errors.New("no key is configured: set --secrets-key-file or " + secretsKeyEnv)
	errNoSecrets = errors.New("--store memory: keeps no secrets beyond its server")
)

// RotateSecrets seals all secrets of the configured store under the current key; see secrets.Vault. SQLite is to have no
// server meanwhile, Postgres may have many.
func RotateSecrets(
	ctx context.Context, c Config, failed func(s ports.SealedSecret, err error), progress func(secrets.Rotation),
) (secrets.Rotation, error) {
	keys, err := c.secretKeys()
	if err == nil && keys == nil {
		err = errNoKey
	}
	if err != nil {
		return secrets.Rotation{}, err
	}
	store, done, err := openSecrets(ctx, c)
	if err != nil {
		return secrets.Rotation{}, err
	}
	defer done()
	if err := checkSchema(ctx, c); err != nil {
		return secrets.Rotation{}, err
	}
	return secrets.New(store, keys, systemClock{}).Rotate(ctx, failed, progress)
}

func openSecrets(ctx context.Context, c Config) (ports.Secrets, func(), error) {
	kind, path, err := c.storeScheme()
	switch {
	case err != nil:
		return nil, nil, err
	case kind == storeSQLite:
		if _, err := os.Stat(path); err != nil { // to open would make one
			return nil, nil, err
		}
		s, err := sqlite.Open(ctx, sqlite.Config{Path: path})
		if err != nil {
			return nil, nil, err
		}
		return s.Secrets(), s.Close, nil
	case kind == storePostgres:
		s, err := postgres.Open(ctx, postgres.Config{URL: c.Store, MaxConns: 1, AllowUnsafe: c.AllowUnsafePostgres})
		if err != nil {
			return nil, nil, err
		}
		return s.Secrets(), s.Close, nil
	}
	return nil, nil, errNoSecrets
}
