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

// CursorsFromWire is CursorFromWire for two.
func CursorsFromWire(in1, in2 protocol.Cursor) (c1, c2 tree.Cursor, err error) {
	if c1, err = CursorFromWire(in1); err == nil {
		c2, err = CursorFromWire(in2)
	}
	return c1, c2, err
}

// OptionalToWire is CursorToWire for one that may be missing.
func OptionalToWire(c *tree.Cursor) *protocol.Cursor {
	if c == nil {
		return nil
	}
	out := CursorToWire(*c)
	return &out
}

// OptionalFromWire is CursorFromWire for one that may be missing.
func OptionalFromWire(c *protocol.Cursor) (*tree.Cursor, error) {
	if c == nil {
		return nil, nil
	}
	out, err := CursorFromWire(*c)
	return &out, err
}

// QueryToWire returns the members that a query has on both wires.
func QueryToWire(q FetchQuery) (after, through *protocol.Cursor, ignore *[]string) {
	if q.Ignore != nil { // an empty list is not none
		ignore = &q.Ignore
	}
	return OptionalToWire(&q.After), OptionalToWire(q.Through), ignore
}

// QueryFromWire is the query that some members stand for, its cursors as checkCursor wants them.
func QueryFromWire(after, through *protocol.Cursor, ignore *[]string) (q FetchQuery, err error) {
	if after != nil {
		if q.After, err = CursorFromWire(*after); err != nil {
			return q, err
		}
	}
	if ignore != nil {
		if q.Ignore = *ignore; q.Ignore == nil {
			q.Ignore = []string{}
		}
	}
	q.Through, err = OptionalFromWire(through)
	return q, err
}

// After is the cursor behind an entry.
func After(e *tree.Entry) tree.Cursor { return tree.AtPath(e.Rev, e.Path) }
