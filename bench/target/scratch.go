package target

import (
	"os"
	"path/filepath"
)

// Scratch makes a directory for one run below parent, or where the system keeps temporary
// files for "". The caller removes it.
func Scratch(parent string) (string, error) {
	dir := os.TempDir()
	if parent != "" {
		var err error
		if dir, err = filepath.Abs(parent); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(dir, "wsd-bench-")
}
