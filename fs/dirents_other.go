//go:build !linux

package fs

func (d *directory) list() ([]dirent, error) { return d.listPortably() }
