//go:build !torture

package app

import "go.uber.org/fx"

// crashPoints is empty outside of the torture build: no environment variable can end this server.
var crashPoints = fx.Options()
