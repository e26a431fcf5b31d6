//go:build !linux

package fs

func renameExclusive(from, to string) error { return renameUnlessThere(from, to) }
