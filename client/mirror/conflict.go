package mirror

import (
	"fmt"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A Policy says what happens to a path that has changed on both sides since they last
// agreed.
type Policy int

// The policies. Where Theirs or Both would take away a version from here that cannot be kept, since it cannot be
// read or there is no room, the path is held as with Hold until it can be.
const (
	// Theirs takes the remote's version, as the first peers do: the pull comes first and the
	// last writer wins. After a loss of the remote's store the newer version wins over one
	// that the lost store had.
	Theirs Policy = iota
	// Ours keeps the version here, which the next push sends.
	Ours
	// Both takes the remote's version and keeps that from here beside it, as
	// NAME.conflict-HASH. Nothing is ever overwritten by that. Where one of the two is a
	// delete, the other one stays.
	Both
	// Fail changes nothing here and fails the pull with a ConflictError.
	Fail
	// Hold leaves the path as it is on both sides, and synchronises everything else. The
	// path, and what is below it, is neither sent nor changed here until it is resolved, by
	// Mirror.Resolve or a call with a policy that decides.
	Hold
)

var policyNames = []string{"theirs", "ours", "both", "fail", "hold"}

// decides reports whether a policy says what becomes of a path.
func (p Policy) decides() bool { return p != Fail && p != Hold }

// String is the name that ParsePolicy knows.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("policy %d", int(p))
}

// ParsePolicy is the policy of a name.
func ParsePolicy(name string) (Policy, error) {
	for i, n := range policyNames {
		if n == name {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("%q is none of %s", name, strings.Join(policyNames, ", "))
}

// A Version is what one side has of a path.
type Version struct {
	Kind  tree.Kind
	Mode  uint32
	MTime time.Time // zero for a delete
	Size  int64     // of a file
	// Hash identifies the content of a file: the hash of its list of chunks. The chunks can
	// be fetched by theirs until they are collected.
	Hash   string
	Chunks []tree.Hash
	Target string // of a link
}

func versionOf(e *tree.Entry) Version {
	v := Version{Kind: e.Kind, Mode: e.Mode, MTime: e.MTime, Size: e.Size, Target: e.Target}
	if e.Kind == tree.KindFile {
		v.Hash = tree.ManifestOf(e.Parts).String()
		for _, p := range e.Parts {
			v.Chunks = append(v.Chunks, p.Hash)
		}
	}
	return v
}

// A Conflict is a path that changed on both sides.
type Conflict struct {
	Path string // of the local tree
	// Local and Remote are the versions. Remote is of By if that is not "": of a path above
	// or below, which leaves no room for this one.
	Local, Remote Version
	By            string
	Kept          Kept
	Copy          string // the path of the copy that was made, if any
	// Lost is the number of the version that was not kept, among those that package lost
	// keeps here; 0 if there is none to keep.
	Lost int64
	// Held: the path stays as it is on both sides until it is resolved.
	Held bool
	// Waits: there is no room here for Remote, which was overtaken at the remote and is kept there. Once there is room it
	// is kept here, and the conflict is reported once more.
	Waits bool
	// Gone: the version of the remote's that was not kept is not to be had there any more, and is not kept here. Remote is
	// a delete if that was found later: after there was no room here for it.
	Gone bool
}

// OfModes reports whether the two versions differ in their modes alone.
func (c *Conflict) OfModes() bool {
	l, r := &c.Local, &c.Remote
	return c.By == "" && l.Kind == r.Kind && l.Kind != tree.KindDelete && l.Hash == r.Hash && l.Target == r.Target && l.Mode != r.Mode
}

// Kept says which version of a conflict is at its path now.
type Kept int

// What was kept. KeptNone means that nothing was decided.
const (
	KeptNone Kept = iota
	KeptRemote
	KeptLocal
	KeptBoth
)

// String is a word for it.
func (k Kept) String() string { return [...]string{"none", "remote", "local", "both"}[k] }

// A ConflictError says that a pull with Fail has found conflicts. It has decided none.
type ConflictError struct {
	Conflicts []Conflict
	More      int // that are not listed
	// Moved: other paths had come over, or been sent, before the conflicts were found. Else
	// nothing was changed.
	Moved bool
}

// add adds conflicts, up to the bound.
func (e *ConflictError) add(list []Conflict) {
	n := min(len(list), MaxReported-len(e.Conflicts))
	e.Conflicts = append(e.Conflicts, list[:n]...)
	e.More += len(list) - n
}

// Error names the first.
func (e *ConflictError) Error() string {
	n := len(e.Conflicts) + e.More
	if n == 1 {
		return fmt.Sprintf("%s has changed on both sides", e.Conflicts[0].Path)
	}
	return fmt.Sprintf("%d paths have changed on both sides, %s is one of them", n, e.Conflicts[0].Path)
}
