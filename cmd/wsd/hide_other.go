//go:build !linux

package main

import "errors"

// hideSecret cannot: only Linux lets a program change what others see of its start.
func hideSecret() error { return errors.ErrUnsupported }
