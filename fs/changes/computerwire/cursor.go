package computerwire

import (
	"github.com/wsd-dev/wsd/fs/tree"
)

// Cursor is a tree.Cursor.
type Cursor struct {
	Rev  int64   `json:"rev"`
	Path *string `json:"path"`
}

// CursorOf is the form of a cursor.
func CursorOf(c tree.Cursor) Cursor {
	if !c.Within {
		return Cursor{Rev: c.Rev}
	}
	return Cursor{Rev: c.Rev, Path: &c.Path}
}

// Tree is the cursor that c stands for.
func (c Cursor) Tree() tree.Cursor {
	if c.Path == nil {
		return tree.At(c.Rev)
	}
	return tree.AtPath(c.Rev, *c.Path)
}

// cursorPointer is CursorOf for one that may be missing.
func cursorPointer(c *tree.Cursor) *Cursor {
	if c == nil {
		return nil
	}
	out := CursorOf(*c)
	return &out
}

// treePointer is Tree for one that may be missing.
func treePointer(c *Cursor) *tree.Cursor {
	if c == nil {
		return nil
	}
	out := c.Tree()
	return &out
}
