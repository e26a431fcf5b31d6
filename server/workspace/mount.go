package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wsd-dev/wsd/fs/lineage"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/process"
)

// A mountPoint is where commands see the workspace.
type mountPoint struct {
	mount *process.Mount
	// missing says why commands do not find the directory at the point, nil if they do.
	missing error
}

// checkPoint refuses a mount point that no workspace in dir can have.
func checkPoint(dir, point string) error {
	if err := tree.CheckPath(point); err != nil || point == "/" {
		return fmt.Errorf("the mount point must be an absolute path below the root, such as /workspace: got %q", point)
	}
	if !same(dir, point) && (within(point, dir) || within(dir, lineage.Real(point))) {
		return fmt.Errorf("workspace %s and mount point %s are inside each other: choose another --mount-point", dir, point)
	}
	return nil
}

// mountAt has commands find dir at point. What it lacks the rights for is told by missing
// and no error: the directories of commands are mapped all the same.
func mountAt(dir, point string) *mountPoint {
	m := &mountPoint{mount: &process.Mount{Point: point, Dir: dir}}
	if same(dir, point) {
		return m
	}
	made, err := makeAll(point)
	if err == nil {
		m.mount.Namespace, err = process.NewNamespace(dir, point)
	}
	if err != nil {
		for _, dir := range made {
			_ = os.Remove(dir) // nobody has it
		}
	}
	m.missing = err
	return m
}

// same reports whether both are one directory.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// makeAll makes a directory with those above it, and returns those that were missing. The
// error is one of the right to have a mount point.
func makeAll(dir string) (made []string, err error) {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil, nil
	case err == nil:
		return nil, fmt.Errorf("%s is no directory", dir)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if made, err = makeAll(filepath.Dir(dir)); err != nil {
		return made, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return made, fmt.Errorf("the mount point does not exist: %w", err)
	}
	return append([]string{dir}, made...), nil
}

// close ends the view. The point, if it was made, stays on the host, an empty directory:
// another workspace may be bound to it elsewhere, and would lose it.
func (m *mountPoint) close() { m.mount.Namespace.Close() }
