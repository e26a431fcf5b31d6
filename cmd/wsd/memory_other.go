//go:build !linux

package main

import "golang.org/x/sys/unix"

// systemMemory is the memory of the machine, 0 when it is not known.
func systemMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
