package mirror

import (
	"cmp"
	"strings"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// roots are the paths of the two trees that stand for each other, "" for "/".
type roots struct{ local, remote string }

func newRoots(local, remote string) roots {
	return roots{strings.TrimSuffix(local, "/"), strings.TrimSuffix(remote, "/")}
}

// toRemote is what the remote calls a path; false for one that it is not told of.
func (r roots) toRemote(path string) (string, bool) { return moved(path, r.local, r.remote) }

// toLocal is what a path of the remote is called here.
func (r roots) toLocal(path string) (string, bool) { return moved(path, r.remote, r.local) }

// isRoot reports whether a local path is the root or above it.
func (r roots) isRoot(path string) bool {
	return slashpath.Within(r.local, path)
}

func moved(path, from, to string) (string, bool) {
	rest, ok := slashpath.Cut(path, from)
	if !ok {
		return "", false
	}
	return slashpath.Join(cmp.Or(to, "/"), rest), true
}

// hidden reports whether a segment of a path is one of some names.
func hidden(path string, names []string) bool {
	if len(names) == 0 {
		return false
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		for _, name := range names {
			if segment == name {
				return true
			}
		}
	}
	return false
}

// above returns the path of the directory that a path is in; "/" is in itself.
func above(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
