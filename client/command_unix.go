//go:build unix

package client

import "syscall"

// childAttributes give the server a process group of its own: a terminal's ^C is for
// the commands it runs, which the client forwards, and not for the server.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
