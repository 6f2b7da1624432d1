package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/keel-agent/keel/app"
	"github.com/keel-agent/keel/app/secrets"
	"github.com/keel-agent/keel/ports"
)

type secretsCmd struct {
	Rotate rotateCmd `cmd:"" help:"Seal all secrets under the current key, the first one. May be ended and begun again."`
}

type secretsFlags struct {
	SecretsKeyFile string `help:"File with the keys that secrets of tenants are sealed under: one a line, ID:KEY or KEY, 32 bytes in base64 or hex, the current one first; else KEEL_SECRETS_KEY has them. No secrets without." env:"KEEL_SECRETS_KEY_FILE" placeholder:"FILE"`
}

type rotateCmd struct {
	storeFlags
	secretsFlags
}

// Run exits with 1 when there are secrets that no key opens, or when it could not go on.
func (r *rotateCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	count, err := app.RotateSecrets(ctx, app.Config{Store: r.Store, SecretsKeys: r.SecretsKeyFile, AllowUnsafePostgres: true},
		func(s ports.SealedSecret, err error) {
			fmt.Fprintf(os.Stderr, "keel: tenant %s: %v\n", oneLine(s.Tenant), err)
		},
		func(n secrets.Rotation) {
			fmt.Fprintf(os.Stderr, "keel: %d secrets so far\n", n.Resealed+n.Current+n.Failed)
		})
	if err != nil {
		return err
	}
	fmt.Printf("%d secrets are sealed under the current key now, %d were before, %d could not be opened\n", count.Resealed, count.Current, count.Failed)
	if count.Failed > 0 {
		return exitWith{1, errors.New("the secrets that could not be opened are as they were")}
	}
	return nil
}
