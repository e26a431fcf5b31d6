//go:build !linux

package server

// restrictSocket does nothing: these systems take the file's mode from the umask, and
// listenUnix narrows it right after.
func restrictSocket(int) {}
