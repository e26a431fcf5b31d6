package sandbox

import "errors"

// A confined command that owns a directory can remove its own rights to it and restore
// them later. A policy denies the content of such a directory too, so the server takes
// the owner's rights while it searches there.

// rights are what one layout has borrowed, by device and inode. The zero value has
// borrowed nothing.
type rights struct {
	dirs map[[2]uint64]borrowedDir
}

// maxBorrowed bounds the directories that a layout opens, each of which takes a
// descriptor. Those beyond are denied.
const maxBorrowed = 512

// maxOpenings bounds how often a directory is opened that a command closes again.
const maxOpenings = 64

// errForeign is the error for a directory whose owner may open it for itself, and that
// a layout cannot open: a helper could not place anything in a directory of another
// group.
var errForeign = errors.New("directory that only a confined command could open")

// errMoved says that the disk changed while it was laid out.
var errMoved = errors.New("the directories of the sandbox change too fast")
