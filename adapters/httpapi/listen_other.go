//go:build !linux

package httpapi

import "syscall"

func limitUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
