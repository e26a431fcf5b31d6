//go:build !linux

package process

// maxSignal is the highest signal number.
const maxSignal = 31
