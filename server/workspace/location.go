package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/wsd-dev/wsd/fs/lineage"
	"github.com/wsd-dev/wsd/fs/slashpath"
)

// rootState is where root, who may have no home in a container, keeps stores.
const rootState = "/var/lib"

// maxKeyName bounds what the name of a store repeats of its directory's.
const maxKeyName = 64

// DefaultStore is where the store of a directory is when nobody says where:
// $XDG_STATE_HOME/wsd/workspaces/NAME-KEY.db, below ~/.local/state without that variable.
// NAME is the directory's, KEY stands for its whole path, links resolved. It is never
// beside or in the directory, which may be read-only around it, and is synchronised in it.
func DefaultStore(dir string) (string, error) {
	dir, err := resolve(dir)
	if err != nil {
		return "", err
	}
	state, err := StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "workspaces", StoreName(dir)+".db"), nil
}

// StoreName is the name of what is kept about a directory, NAME-KEY. The directory need not
// be there any more; its path is absolute.
func StoreName(dir string) string {
	dir = lineage.Real(dir)
	sum := sha256.Sum256([]byte(dir))
	return keyName(dir) + "-" + hex.EncodeToString(sum[:8])
}

// StateDir is the directory below which wsd keeps the stores that nobody puts elsewhere.
func StateDir() (string, error) {
	state, err := stateHome()
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "wsd"), nil
}

func stateHome() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state"), nil
	}
	if os.Getuid() == 0 {
		return rootState, nil
	}
	return "", errors.New("there is no place for the store: neither $XDG_STATE_HOME nor $HOME is set")
}

// keyName is the last segment of a path as it may be in a file's name everywhere.
func keyName(dir string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		default:
			return '_'
		}
	}, filepath.Base(dir))
	return name[:min(len(name), maxKeyName)]
}

// resolve is the path of a directory that is there, without links.
func resolve(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoDirectory, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%w: %s is no directory", ErrNoDirectory, abs)
	}
	return abs, nil
}

// ErrNoDirectory says that there is no directory to serve.
var ErrNoDirectory = errors.New("find the workspace")

// within reports whether a path, which need not be there, is dir or below it.
func within(path, dir string) bool {
	return slashpath.Within(lineage.Real(path), dir)
}
