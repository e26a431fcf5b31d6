package sandbox

import "errors"

// A confined command that owns a directory can take its own rights to it away, and can
// give them back later. What is in the directory counts all the same, so the server
// takes the owner's rights for as long as it looks.

// rights are what one layout has borrowed. The zero value has borrowed nothing.
type rights struct {
	dirs []borrowedDir
}

// errForeign is the error for a directory whose owner may open it for itself, and in
// which a helper could not place anything.
var errForeign = errors.New("directory of another group that cannot be entered")
