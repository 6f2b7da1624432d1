//go:build linux || darwin

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// terminalSize returns the size of the terminal that f is; not ok when f is none.
func terminalSize(f *os.File) (cols, rows int, ok bool) {
	var size struct{ rows, cols, width, height uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0, 0, false
	}
	if size.cols == 0 || size.rows == 0 {
		return 80, 24, true
	}
	return int(size.cols), int(size.rows), true
}
