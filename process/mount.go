package process

import (
	"path"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// A Mount has a directory stand at another place for commands, as clients know it. A nil
// Mount changes nothing.
type Mount struct {
	Point string // where clients see it; absolute and clean
	Dir   string // where it is; absolute and clean
	// Namespace has Dir at Point. nil: commands get the names of Dir instead.
	Namespace *Namespace
}

// Place says where a command is started whose directory a client calls dir, and with
// which view. Both are what they are on the host for a directory outside of Point.
func (m *Mount) Place(dir string) (string, *Namespace) {
	rest, inside := m.cut(dir)
	switch {
	case !inside:
		return dir, nil
	case m.Namespace != nil:
		return dir, m.Namespace
	default:
		return slashpath.Join(m.Dir, rest), nil
	}
}

// Host is the path by which this program reaches what clients call name.
func (m *Mount) Host(name string) string {
	if rest, inside := m.cut(name); inside {
		return slashpath.Join(m.Dir, rest)
	}
	return name
}

// cut returns what follows Point in a path that is there or below. "..", which would lead
// out of it, is taken as text.
func (m *Mount) cut(name string) (rest string, inside bool) {
	if m == nil {
		return "", false
	}
	return slashpath.Cut(path.Clean(name), m.Point)
}

// Enter has a command whose directory is a path of this program be started in the
// Namespace, whatever the directory, and by the name that it has there.
func (m *Mount) Enter(cmd *Command) {
	if m == nil || m.Namespace == nil {
		return
	}
	cmd.Namespace = m.Namespace
	if rest, inside := slashpath.Cut(path.Clean(cmd.Dir), m.Dir); inside {
		cmd.Dir = slashpath.Join(m.Point, rest)
	}
}
