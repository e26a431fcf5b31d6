//go:build !linux

package main

import "errors"

// hideSecrets cannot: only Linux lets a program change what others see of its start.
func hideSecrets() error { return errors.ErrUnsupported }
