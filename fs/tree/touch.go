package tree

import (
	"encoding/hex"
	iofs "io/fs"
)

// Touch gives the state of a path a new revision, so that whoever has seen it sees it once
// more: of what has the path, not of what is below it, or of the tomb. It returns that
// state. io/fs.ErrNotExist says that there is nothing, and never was.
func (e *Edit) Touch(path string) (Entry, error) {
	out, err := e.Entry(path)
	if err != nil {
		return out, err
	}
	e.begin()
	if out.Kind == KindDelete {
		out.Rev, err = e.touchTomb(path)
		return out, at("touch", path, err)
	}
	s, err := e.res.plain(path)
	if err == nil && !s.ok {
		err = iofs.ErrNotExist
	}
	if err == nil {
		err = e.stamp(&s)
	}
	out.Rev = s.rev()
	return out, at("touch", path, err)
}

func (e *Edit) touchTomb(path string) (int64, error) {
	tomb, err := e.tx.Tomb(e.ns.ID, path)
	if err != nil {
		return 0, err
	}
	if tomb.Rev, err = e.mint(); err != nil {
		return 0, err
	}
	return tomb.Rev, e.tx.PutTomb(e.ns.ID, tomb)
}

// Bury notes, with a new revision, that nothing has a path: whoever has something there is to
// remove it. prior is the Fingerprint of that, or "".
func (e *Edit) Bury(path, prior string) (Entry, error) {
	e.begin()
	tomb := Tomb{Path: path}
	err := checkPath(path)
	if err == nil {
		var s spot
		if s, err = e.res.plain(path); err == nil && s.ok {
			err = iofs.ErrExist
		}
	}
	if err == nil && prior != "" {
		tomb.Prior, err = hex.DecodeString(prior)
	}
	if err == nil {
		tomb.Rev, err = e.mint()
	}
	if err == nil {
		err = e.tx.PutTomb(e.ns.ID, tomb)
	}
	return entryOfTomb(&tomb), at("bury", path, err)
}
