//go:build !unix

package client

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }
