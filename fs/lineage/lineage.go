package lineage

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// idBytes is how much of a hash an identity has.
const idBytes = 12

// Of returns the identities of a directory and of all directories above it, the directory's
// own first: "" if it is not there. It is nil on a machine that does not say when it was
// started.
func Of(dir string) ([]string, error) {
	boot := bootID()
	if boot == "" {
		return nil, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l := &lineage{boot: boot, mounts: mounts()}
	real, err := filepath.EvalSymlinks(abs)
	for errors.Is(err, iofs.ErrNotExist) && abs != filepath.Dir(abs) {
		if len(l.ids) == 0 {
			l.ids = append(l.ids, "")
		}
		abs = filepath.Dir(abs)
		real, err = filepath.EvalSymlinks(abs)
	}
	if err == nil {
		err = l.climb(real)
	}
	if err != nil {
		return nil, fmt.Errorf("find what is above %s: %w", dir, err)
	}
	return l.ids, nil
}

// Real returns an absolute path without its links. The part that does not exist stays as it is.
func Real(path string) string {
	for at := path; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, strings.TrimPrefix(path, at))
		}
		if at == filepath.Dir(at) {
			return path
		}
	}
}

// Holds reports whether one of two directories is the other one, or in it, by what Of says
// of them.
func Holds(outer, inner []string) bool {
	return len(outer) > 0 && outer[0] != "" && slices.Contains(inner, outer[0])
}

type lineage struct {
	boot   string
	mounts []mount
	ids    []string
	walked []string // paths that were climbed from
}

// A mount shows what is below root, in the file system of a device, at a point.
type mount struct{ device, root, point string }

// climb adds a directory and those above it.
func (l *lineage) climb(path string) error {
	if slices.Contains(l.walked, path) {
		return nil
	}
	l.walked = append(l.walked, path)
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.ErrUnsupported
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", l.boot, st.Dev, st.Ino))
		if id := hex.EncodeToString(sum[:idBytes]); !slices.Contains(l.ids, id) {
			l.ids = append(l.ids, id)
		}
		for _, m := range l.mounts {
			if m.point == at {
				if err := l.beyond(&m); err != nil {
					return err
				}
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// beyond adds what is above the root of a mount where another mount shows it.
func (l *lineage) beyond(m *mount) error {
	if m.root == "/" {
		return nil
	}
	for _, other := range l.mounts {
		rel, err := filepath.Rel(other.root, m.root)
		if err != nil || other.device != m.device || rel == "." || !filepath.IsLocal(rel) {
			continue
		}
		path := filepath.Join(other.point, rel)
		if _, err := os.Stat(path); err != nil {
			continue // something else is mounted above it
		}
		if err := l.climb(path); err != nil {
			return err
		}
	}
	return nil
}
