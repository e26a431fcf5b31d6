package changes

import (
	"fmt"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

var errRev = fmt.Errorf("%w: a revision is a number from 0 to %d", tree.ErrInvalid, tree.MaxRev)

// checkCursor refuses, with EINVAL, a cursor of a peer that cannot be one: its revision
// is beyond what peers can count, its path longer than paths are. The path need not be
// canonical, nor that of anything.
func checkCursor(c tree.Cursor) error {
	if err := checkRev(c.Rev); err != nil {
		return err
	}
	if c.Within && (rawname.Len(c.Path) > tree.MaxPath || !utf8.ValidString(c.Path)) {
		return &Error{Code: "EINVAL", Err: fmt.Errorf("%w: a cursor's path is UTF-8 of at most %d bytes", tree.ErrInvalid, tree.MaxPath)}
	}
	return nil
}

// CursorToWire is the JSON form of a cursor.
func CursorToWire(c tree.Cursor) protocol.Cursor {
	out := protocol.Cursor{Rev: c.Rev}
	if c.Within {
		out.Path = &c.Path
	}
	return out
}

// CursorFromWire is the cursor that a JSON form stands for, as checkCursor wants it.
func CursorFromWire(in protocol.Cursor) (tree.Cursor, error) {
	c := tree.Cursor{Rev: in.Rev}
	if in.Path != nil {
		c.Within, c.Path = true, *in.Path
	}
	return c, checkCursor(c)
}

// After is the cursor behind an entry.
func After(e *tree.Entry) tree.Cursor { return tree.AtPath(e.Rev, e.Path) }
