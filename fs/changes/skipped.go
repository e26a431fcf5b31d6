package changes

import (
	"slices"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

// A SkipReason says why a path is not the same on the disk of a workspace and in its tree.
type SkipReason string

// The reasons.
const (
	// Unwritten: the tree has what is not on the disk yet. Every settle tries again.
	Unwritten SkipReason = "unwritten"
	// Unreadable: what is on the disk could not be read, and the tree has what was known of it.
	Unreadable SkipReason = "unreadable"
	// Special: it is neither file, directory nor link.
	Special SkipReason = "special"
	// BadName: its name or target is too long for a tree, or not UTF-8 where the other end
	// does not know such.
	BadName SkipReason = "name"
	// Disowned: it was replaced, and has another owner or group than before, since we may not
	// keep those. It is no state but something that happens: Workspace.Skipped has none.
	Disowned SkipReason = "owner"
)

// Skipped are the paths of a workspace that are left out for one reason.
type Skipped struct {
	Why   SkipReason
	Count int           // how many there are
	Paths []SkippedPath // the first of them, up to MaxSkipped
}

// A SkippedPath is one that is left out.
type SkippedPath struct {
	Path  string // in the tree
	Error string // what the system said, "" for nothing
}

// DisownedOf lists files that were replaced without their owner.
func DisownedOf(paths []string, more int) Skipped {
	s := Skipped{Why: Disowned, Count: len(paths) + more}
	for _, path := range paths[:min(len(paths), MaxSkipped)] {
		s.Paths = append(s.Paths, SkippedPath{Path: path})
	}
	return s
}

// SameSkipped reports whether two lists name and count the same.
func SameSkipped(a, b []Skipped) bool {
	return slices.EqualFunc(a, b, func(a, b Skipped) bool {
		return a.Why == b.Why && a.Count == b.Count && slices.Equal(a.Paths, b.Paths)
	})
}

// NotUTF8 is the Error of paths that an end does not have since they are not UTF-8.
const NotUTF8 = "not UTF-8"

// WithSkipped adds paths that are left out for one reason to what an end leaves out.
func WithSkipped(list []Skipped, more Skipped) []Skipped {
	if more.Count == 0 {
		return list
	}
	out := slices.Clone(list)
	i := slices.IndexFunc(out, func(s Skipped) bool { return s.Why == more.Why })
	if i < 0 {
		return append(out, more)
	}
	of := &out[i]
	of.Count += more.Count
	of.Paths = slices.Concat(of.Paths, more.Paths)
	of.Paths = of.Paths[:min(len(of.Paths), MaxSkipped)]
	return out
}

// A PendingError says that entries are in the tree for good, but not all of them are on the
// disk yet. What is missing is brought there by the next call, or the next start.
type PendingError struct {
	Err error
	// Partly: all is done but what Workspace.Skipped names as Unwritten.
	Partly bool
}

// Error says why.
func (e *PendingError) Error() string {
	return "applied, but not yet in the directory: " + e.Err.Error()
}

// Unwrap is why.
func (e *PendingError) Unwrap() error { return e.Err }

// AnyRoom lets Workspace.Apply also apply entries for which the disk has no room: they are
// in the tree, and on the disk once there is room.
const AnyRoom tree.ApplyMode = 1 << 7

// SkippedToWire is the JSON form of what is left out, cut to the limits of one answer.
func SkippedToWire(list []Skipped) []protocol.SkippedPaths {
	var out []protocol.SkippedPaths
	for _, s := range list {
		w := protocol.SkippedPaths{Why: string(s.Why), Count: s.Count, Paths: []protocol.SkippedPath{}}
		left := maxSkippedBytes
		for _, p := range s.Paths {
			if left -= len(p.Path) + len(p.Error); left < 0 {
				break
			}
			w.Paths = append(w.Paths, protocol.SkippedPath{Path: p.Path, Error: p.Error})
		}
		out = append(out, w)
	}
	return out
}

// SkippedFromWire is what a JSON form stands for.
func SkippedFromWire(list []protocol.SkippedPaths) []Skipped {
	var out []Skipped
	for _, w := range list {
		s := Skipped{Why: SkipReason(w.Why), Count: max(w.Count, len(w.Paths))}
		for _, p := range w.Paths {
			s.Paths = append(s.Paths, SkippedPath{Path: p.Path, Error: p.Error})
		}
		out = append(out, s)
	}
	return out
}
