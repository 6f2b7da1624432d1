//go:build !linux

package httpapi

import "errors"

func limitUnacknowledged(int) error { return nil }

func sharePort(int) error { return errors.New("sharing a port needs Linux") }
