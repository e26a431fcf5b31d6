package disk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// rootState is what the row of a directory says of it, as JSON.
type rootState struct {
	Dir   string `json:"dir"`
	Ino   uint64 `json:"ino"`
	BTime int64  `json:"btime"`
	// Restore: what the tree has is to be put into the journal.
	Restore bool `json:"restore,omitempty"`
	// Outs are the versions that are put off, by their names.
	Outs map[string]storedOut `json:"outs,omitempty"`
}

// attach reads what is known of the directory, or makes it known.
//
// A directory that was never seen before, and an empty one in the place of one that was
// not, gets what the tree has below the mount: nobody has deleted that. What is in the
// directory already stays, and is settled.
func (w *Workspace) attach(ctx context.Context, fd int, st stat) error {
	now := rootState{Dir: w.cfg.Dir, Ino: st.ino, BTime: st.btime}
	list, err := allNames(fd)
	if err != nil {
		return err
	}
	empty := len(list) == 0
	restore := false
	_, err = w.cfg.Tree.Update(ctx, func(e *tree.Edit) error {
		rows, err := rowsOf(e.Tx())
		if err != nil {
			return err
		}
		if w.root, err = rows.DiskRoot(w.cfg.Tree.Name(), w.cfg.Mount); err != nil {
			return err
		}
		if w.root.ID != 0 {
			if err := json.Unmarshal(w.root.State, &w.state); err != nil {
				return fmt.Errorf("%w: the row of the workspace's directory: %w", tree.ErrDamaged, err)
			}
		}
		if err := w.index.load(rows, w.root.ID); err != nil {
			return err
		}
		info, err := e.Lstat(w.cfg.Mount)
		switch {
		case err == nil && info.Path != w.cfg.Mount:
			return &iofs.PathError{Op: "mount", Path: w.cfg.Mount, Err: errors.New("a link leads to it")}
		case err != nil && tree.Code(err) == "":
			return err
		}
		has := err == nil && info.Kind == tree.KindDir
		lost := empty && !w.cfg.Emptied && w.index.count > 0 && (w.state.Dir != now.Dir || w.state.Ino != now.Ino || w.state.BTime != now.BTime)
		restore = has && (w.root.ID == 0 || lost || w.state.Restore)
		if lost && restore {
			if err := w.allHeld(e); err != nil {
				return err
			}
		}
		if restore {
			w.index.remove("")
			if err := rows.DeleteDiskStats(w.root.ID, ""); err != nil {
				return err
			}
		}
		now.Restore, now.Outs = restore, w.state.Outs
		return w.putState(rows, now)
	})
	if err != nil {
		return err
	}
	w.loadOuts(fd)
	w.home.root = w.root.ID
	w.pending = true // that may be
	if !restore {
		return nil
	}
	return w.restore(ctx, fd)
}

// allHeld refuses to fill an empty directory in the place of another one when the files of that
// one were all that had the content.
func (w *Workspace) allHeld(e *tree.Edit) error {
	var err error
	w.index.root.each(func(n *node) {
		if err != nil || n.stat.kind != tree.KindFile {
			return
		}
		entry, found := e.Entry(w.treePath(n.path()))
		if found == nil {
			_, found = e.Whole(entry.Parts)
		}
		if errors.Is(found, tree.ErrUnknownHash) {
			found = fmt.Errorf("%w: %s is empty, and is not the directory that the store is of, which had the content of its files: bring that back (was it mounted?), or move the store away to begin anew with an empty one", ErrNoDirectory, w.cfg.Dir)
		}
		if found != nil && !errors.Is(found, iofs.ErrNotExist) {
			err = found
		}
	})
	return err
}

// restore lists in the journal what the tree has and the directory has not.
func (w *Workspace) restore(ctx context.Context, fd int) error {
	p := newPlan(w, 0, nil)
	walk := newWalker(fd)
	defer walk.forget()
	err := w.cfg.Tree.Walk(ctx, w.cfg.Mount, func(info *tree.FileInfo) error {
		path, _ := w.where(info.Path)
		if path == "" || hidden(path) || info.Stub {
			return nil
		}
		dir, name := slashpath.Split(path)
		up, err := walk.open(dir)
		if err == nil {
			_, err = statAt(up, name)
		}
		if gone(err) {
			p.order = append(p.order, path)
			err = nil
		}
		return err
	})
	if err != nil {
		return err
	}
	w.log.InfoContext(ctx, "the workspace's directory gets what the store has of it", "dir", w.cfg.Dir, "paths", len(p.order))
	_, err = w.cfg.Tree.Update(ctx, func(e *tree.Edit) error {
		if err := p.finish(e); err != nil {
			return err
		}
		rows, err := rowsOf(e.Tx())
		if err != nil {
			return err
		}
		done := w.state
		done.Restore = false
		return w.putState(rows, done)
	})
	return err
}

func (w *Workspace) putState(rows Rows, s rootState) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	same := w.root.ID != 0 && bytes.Equal(w.root.State, text)
	w.state, w.root.State = s, text
	if same {
		return nil // a full disk may have no room for it
	}
	return rows.PutDiskRoot(&w.root)
}
