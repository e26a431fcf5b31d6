package tree

import (
	"errors"
	iofs "io/fs"
	"strings"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// A dir is a directory on the way to something. Its path has no links in it.
type dir struct {
	ino     int64
	parent  *dir // nil for the root
	path    string
	nameRev int64 // the greatest revision of the names on its path
}

// in reports whether d is the directory ino or below it.
func (d *dir) in(ino int64) bool {
	for ; d != nil; d = d.parent {
		if d.ino == ino {
			return true
		}
	}
	return false
}

// A spot is where a path leads: a name in a directory, and what has it. The root has
// neither directory nor name.
type spot struct {
	dir  *dir
	name Name // Parent and Name are set even when nothing has the name
	node Node
	ok   bool // something has the name
	path string
}

// rev is the revision of the path: of the node, or of a name on the way to it.
func (s *spot) rev() int64 {
	if s.dir == nil {
		return s.node.Rev
	}
	return max(s.node.Rev, s.name.Rev, s.dir.nameRev)
}

// asDir is the spot as a directory to go on from.
func (s *spot) asDir() *dir {
	if s.dir == nil {
		return &dir{ino: s.node.Ino, path: "/"}
	}
	return &dir{ino: s.node.Ino, parent: s.dir, path: s.path, nameRev: max(s.name.Rev, s.dir.nameRev)}
}

// A resolver finds paths within one transaction. It remembers directories that it has
// come through; forget must be called when a name that it knows changes.
type resolver struct {
	tx    Tx
	ns    *Namespace
	known map[string]*dir
	// grow makes a directory that is missing on the way, nil when that is an error.
	grow func(d *dir, name string) (Child, error)
}

// maxKnown bounds what a resolver remembers.
const maxKnown = 10_000

func newResolver(tx Tx, ns *Namespace) *resolver {
	return &resolver{tx: tx, ns: ns, known: map[string]*dir{}}
}

func (r *resolver) forget() { clear(r.known) }

func (r *resolver) root() (spot, error) {
	n, err := r.tx.Node(r.ns.Root)
	return spot{node: n, ok: true, path: "/"}, err
}

func (r *resolver) rootDir() *dir { return &dir{ino: r.ns.Root, path: "/"} }

// look finds a name in a directory.
func (r *resolver) look(d *dir, name string) (spot, error) {
	s := spot{dir: d, name: Name{Parent: d.ino, Name: name, Namespace: r.ns.ID}, path: slashpath.Join(d.path, name)}
	c, err := r.tx.Lookup(d.ino, name)
	if errors.Is(err, ErrNoRow) {
		return s, nil
	}
	s.name, s.node, s.ok = c.Name, c.Node, err == nil
	return s, err
}

func (r *resolver) remember(d *dir) {
	if len(r.known) >= maxKnown {
		clear(r.known)
	}
	r.known[d.path] = d
}

// walk finds a clean path. Links on the way are followed; the last one when follow is
// true. A spot whose name nobody has is no error; a missing directory on the way is
// io/fs.ErrNotExist unless r.grow makes it.
func (r *resolver) walk(path string, follow bool) (spot, error) {
	if path == "/" {
		return r.root()
	}
	cut := strings.LastIndexByte(path, '/')
	if d := r.known[path[:max(cut, 1)]]; d != nil {
		s, err := r.look(d, path[cut+1:])
		if err != nil || !follow || s.node.Kind != KindSymlink {
			return s, err
		}
	}
	d, rest, links := r.rootDir(), path[1:], 0
	for {
		name, behind, more := strings.Cut(rest, "/")
		for more && strings.HasPrefix(behind, "/") { // a link's target may have several
			behind = behind[1:]
		}
		if behind == "" {
			more = false
		}
		switch name {
		case "", ".":
			if !more {
				return r.again(d)
			}
			rest = behind
			continue
		case "..":
			if d.parent != nil {
				d = d.parent
			}
			if !more {
				return r.again(d)
			}
			rest = behind
			continue
		}
		if more {
			if k := r.known[slashpath.Join(d.path, name)]; k != nil {
				d, rest = k, behind
				continue
			}
		}
		s, err := r.look(d, name)
		if err != nil {
			return s, err
		}
		switch {
		case !s.ok && !more:
			return s, nil
		case !s.ok:
			if r.grow == nil {
				return s, iofs.ErrNotExist
			}
			c, err := r.grow(d, name)
			if err != nil {
				return s, err
			}
			s.name, s.node, s.ok = c.Name, c.Node, true
		case s.node.Kind == KindSymlink && (more || follow):
			if links++; links > slashpath.MaxLinks {
				return s, ErrLoop
			}
			rest = s.node.Target
			if more {
				rest += "/" + behind
			}
			if strings.HasPrefix(rest, "/") {
				d, rest = r.rootDir(), rest[1:]
			}
			continue
		}
		if !more {
			return s, nil
		}
		if s.node.Kind != KindDir {
			return s, ErrNotDirectory
		}
		d = s.asDir()
		r.remember(d)
		rest = behind
	}
}

// again makes a directory that a link led to a spot.
func (r *resolver) again(d *dir) (spot, error) {
	if d.parent == nil {
		return r.root()
	}
	return r.look(d.parent, slashpath.Base(d.path))
}

// existing is walk for what must be there.
func (r *resolver) existing(path string, follow bool) (spot, error) {
	s, err := r.walk(path, follow)
	if err == nil && !s.ok {
		err = iofs.ErrNotExist
	}
	return s, err
}
