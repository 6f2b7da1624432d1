//go:build !linux

package httpapi

import (
	"errors"
	"net"
)

func limitUnsent(int) error { return nil }

func sharePort(int) error { return errors.New("sharing a port needs Linux") }

func unacknowledged(net.Conn) func() int { return func() int { return 0 } }
