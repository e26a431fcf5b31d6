package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Environment variables that say which programs to use; the Makefile sets them.
const (
	WsdVariable   = "WSD_BIN"
	CodexVariable = "CODEX_BIN"
)

// ErrNoCodex is returned where the real codex client is not installed.
var ErrNoCodex = errors.New("the codex client is not installed; make interop installs it and sets " + CodexVariable)

// Root is the top of the repository that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if up := filepath.Dir(dir); up != dir {
			dir = up
			continue
		}
		return "", errors.New("not within the repository")
	}
}

// WsdPath is the wsd to look at: the one WSD_BIN names, else one built into dir.
func WsdPath(ctx context.Context, dir string) (string, error) {
	if path := os.Getenv(WsdVariable); path != "" {
		return filepath.Abs(path)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "wsd")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-o", path, "./cmd/wsd")
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build wsd: %w\n%s", err, out)
	}
	return path, nil
}

// CodexPath is the codex that CODEX_BIN names, as npm installed it.
func CodexPath() (string, error) {
	path := os.Getenv(CodexVariable)
	if path == "" {
		return "", ErrNoCodex
	}
	return filepath.Abs(path)
}
