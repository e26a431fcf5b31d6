package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"iter"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// maxNamed bounds the paths that a Contact and a DeletesError name.
const maxNamed = 5

// A Contact is what two sides have that were never in step. Files are files and links.
type Contact struct {
	Here, There int // files that only one side has
	Differ      int // files that both have, and not the same
	Same        int // files that both have
	// Cut: a first push from here got no answer, and the remote has files that were not in it.
	Cut bool
	// DifferNames, HereNames and ThereNames are the first few paths of each kind, of the local tree.
	DifferNames, HereNames, ThereNames []string
	// Newer are paths that are new or changed here since the call by which there is a Mirror.First, and that only this
	// side has, or that differ and would come from there; 0 without one. NewerNames are the first few.
	Newer      int
	NewerNames []string
	// NewerThere are paths that are new or changed at the remote since that call, which were not sent from here, and that
	// only the remote has, or that differ; 0 without one. NewerThereNames are the first few.
	NewerThere      int
	NewerThereNames []string

	here []tree.Entry // what only this side has, directories too
	rev  int64        // the revision here of which all this is
}

// First is the Config.First of calls that have begun to bring both sides together and have
// not come to the end of it, "" for none.
func (m *Mirror) First(ctx context.Context) (first string, err error) {
	err = m.alone(ctx, func() error {
		s, err := m.loadState(ctx)
		first = s.first()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("load the cursors: %w", err)
	}
	return first, nil
}

// first is the choice by which something has come over already, or has been removed here.
func (s *state) first() string {
	if s.strangers() && s.notes.Yielded == 0 {
		return ""
	}
	return s.notes.First
}

// newer reports whether a revision here is neither the remote's nor older than the choice of first.
func (s *state) newer(rev int64) bool {
	return s.first() != "" && rev > max(s.notes.Yielded, s.notes.Begun) && !s.notes.Pulled.has(rev)
}

// newerThere returns a function that reports whether the remote's version of a path is newer than the choice of first, and
// none that was sent from here.
func (m *Mirror) newerThere(ctx context.Context, s *state) (func(*tree.Entry) bool, error) {
	if s.first() == "" {
		return func(*tree.Entry) bool { return false }, nil
	}
	wm, err := m.cfg.Remote.Watermarks(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("read the remote's watermarks: %w", err)
	}
	begun := s.notes.BegunThere
	if lostBy(s, wm.CurrentRev, wm.Fetch).theirs { // its revisions are others
		begun = 0
	}
	return func(x *tree.Entry) bool { return x.Rev > begun && !s.notes.Pushed.has(x.Rev) && !m.isOwn(s, x) }, nil
}

// Blank reports whether two sides were never in step, and the remote has nothing.
func (m *Mirror) Blank(ctx context.Context) (bool, error) {
	blank := false
	err := m.alone(ctx, func() error {
		m.fresh = false
		s, err := m.loadState(ctx)
		if err != nil {
			return fmt.Errorf("load the cursors: %w", err)
		}
		if !s.strangers() && !s.notes.Blank {
			return nil
		}
		if err := m.loadRules(ctx); err != nil {
			return err
		}
		blank, err = m.nothingThere(ctx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look at what the remote has: %w", err)
	}
	return blank, nil
}

// Empty reports whether the remote has nothing.
func (m *Mirror) Empty(ctx context.Context) (empty bool, err error) {
	err = m.alone(ctx, func() error {
		m.fresh = false
		if err := m.loadRules(ctx); err != nil {
			return err
		}
		empty, err = m.nothingThere(ctx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look at what the remote has: %w", err)
	}
	return empty, nil
}

// nothingThere reports whether the remote has nothing.
func (m *Mirror) nothingThere(ctx context.Context) (bool, error) {
	err := m.allThere(ctx, []string{}, func(*tree.Entry) error { return errEnough })
	if errors.Is(err, errEnough) {
		return false, nil
	}
	return err == nil, err
}

// Begun reports whether the other end that a tree calls so may have had anything of it, or the tree
// of the other end's; "" stands for DefaultPeerID.
func Begun(ctx context.Context, t *tree.Tree, peerID string) (bool, error) {
	if peerID == "" {
		peerID = DefaultPeerID
	}
	s, err := (&Mirror{cfg: Config{PeerID: peerID}, tree: t}).loadState(ctx)
	if err != nil {
		return false, fmt.Errorf("load the cursors: %w", err)
	}
	return s.peer.Push != tree.Cursor{} || s.notes.AgreedPush != tree.Cursor{} || s.notes.Lost > 0 || len(s.notes.Pulled)+len(s.sent.Prints) > 0, nil
}

// HasFiles reports whether this side has a file or link that is synchronised, as far as it is settled.
func (m *Mirror) HasFiles(ctx context.Context) (has bool, err error) {
	err = m.alone(ctx, func() error {
		m.fresh = false
		if err := m.loadRules(ctx); err != nil {
			return err
		}
		_, has, err = m.countFiles(ctx, func(files int) bool { return files > 0 })
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for files here: %w", err)
	}
	return has, nil
}

// Contact compares two sides that were never in step, or have not all that there was at
// first (Mirror.First); nil when they were and have. It settles this side, and changes nothing.
func (m *Mirror) Contact(ctx context.Context) (*Contact, error) {
	var c *Contact
	err := m.alone(ctx, func() (err error) {
		m.fresh = false
		s, err := m.loadState(ctx)
		if err != nil {
			return fmt.Errorf("load the cursors: %w", err)
		}
		if s.first() == "" && !s.strangers() && !s.notes.Blank {
			return nil
		}
		if err := m.settle(ctx); err != nil {
			return err
		}
		if err := m.loadRules(ctx); err != nil {
			return err
		}
		c, err = m.contact(ctx, &s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("compare both sides: %w", err)
	}
	return c, nil
}

func (m *Mirror) contact(ctx context.Context, s *state) (*Contact, error) {
	info, err := m.tree.Info(ctx)
	if err != nil {
		return nil, err
	}
	c := &Contact{Cut: s.notes.Blank && s.unanswered(), rev: info.Rev}
	note := func(e *tree.Entry) {
		if s.newer(e.Rev) {
			c.Newer++
			c.NewerNames = named(c.NewerNames, e.Path)
		}
	}
	newer, err := m.newerThere(ctx, s)
	if err != nil {
		return nil, err
	}
	noteThere := func(x *tree.Entry) {
		if newer(x) {
			c.NewerThere++
			c.NewerThereNames = named(c.NewerThereNames, x.Path)
		}
	}
	there := map[string]bool{} // live paths there
	err = m.allThere(ctx, m.filter.names, func(x *tree.Entry) error {
		if m.filter.hides(x.Path, x.Kind == tree.KindDir) {
			return nil
		}
		there[x.Path] = true
		if s.notes.Blank && m.isOwn(s, x) || m.isCode(x.Path, x.Kind) {
			return nil
		}
		cur, err := m.tree.Entry(ctx, x.Path)
		nothing := errors.Is(err, iofs.ErrNotExist) || err == nil && cur.Kind == tree.KindDelete
		switch {
		case x.Kind == tree.KindDir && nothing:
			noteThere(x)
		case x.Kind == tree.KindDir && err == nil && cur.Kind == tree.KindDir:
		case nothing:
			c.There++
			c.ThereNames = named(c.ThereNames, x.Path)
			noteThere(x)
		case err != nil:
			return err
		case same(&cur, x):
			c.Same++
		default:
			c.Differ++
			c.DifferNames = named(c.DifferNames, x.Path)
			noteThere(x)
			if remote, _ := m.roots.toRemote(x.Path); tree.AtPath(x.Rev, remote).Compare(s.peer.Fetch) > 0 {
				note(&cur)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{Ignore: m.filter.names})
	if err != nil {
		return nil, err
	}
	for e, err := range list.All(ctx) {
		if err != nil {
			return nil, err
		}
		if _, ok := m.roots.toRemote(e.Path); !ok || m.unknown(&e) || m.roots.isRoot(e.Path) || e.Kind == tree.KindDelete || there[e.Path] || m.filter.hides(e.Path, e.Kind == tree.KindDir) {
			continue
		}
		c.here = append(c.here, e)
		note(&e)
		if e.Kind != tree.KindDir {
			c.Here++
			c.HereNames = named(c.HereNames, e.Path)
		}
	}
	return c, nil
}

// named adds a name to the first of some.
func named(names []string, name string) []string {
	if len(names) == maxNamed {
		return names
	}
	return append(names, name)
}

// allThere calls fn for all that the settled remote has, by the paths here, but for some names.
func (m *Mirror) allThere(ctx context.Context, ignore []string, fn func(*tree.Entry) error) error {
	wm, err := m.cfg.Remote.Watermarks(ctx, true)
	if err != nil {
		return fmt.Errorf("read the remote's watermarks: %w", err)
	}
	m.takeNames(&wm)
	through := tree.At(wm.CurrentRev)
	return m.listThere(ctx, changes.FetchQuery{Through: &through, Ignore: ignore}, fn)
}

// listThere calls fn for what the remote has, by the paths here.
func (m *Mirror) listThere(ctx context.Context, q changes.FetchQuery, fn func(*tree.Entry) error) (err error) {
	f, err := m.remote().FetchChanges(ctx, q)
	if err != nil {
		return fmt.Errorf("list the remote's changes: %w", err)
	}
	defer func() { f.Entries.Close(err) }()
	for {
		e, err := f.Entries.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the remote's changes: %w", err)
		}
		if err := m.atRoot(&e, false); err != nil {
			return err
		}
		path, ok := m.roots.toLocal(e.Path)
		if !ok || m.roots.isRoot(path) || e.Kind == tree.KindDelete {
			continue
		}
		e.Path = path
		if err := fn(&e); err != nil {
			return err
		}
	}
}

// Leaves returns the paths of what Yield would remove.
func (c *Contact) Leaves() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range c.here {
			if !yield(c.here[i].Path) {
				return
			}
		}
	}
}

// Yield removes what only this side has, as Contact has found it. The files are kept as lost
// versions. A directory stays as long as something is in it that is not synchronised, and so does what
// cannot be read. It returns the number of files, and calls Config.OnChange for each path that it has removed.
// If there is something to remove, Mirror.First is first from then on.
func (m *Mirror) Yield(ctx context.Context, c *Contact, first string) (int, error) {
	var list []Change
	err := m.alone(ctx, func() error {
		var err error
		if m.s, err = m.loadState(ctx); err != nil {
			return fmt.Errorf("load the cursors: %w", err)
		}
		m.loaded = false // the next call reads what is stored now
		unread := map[string]bool{}
		m.cfg.Local.Skipped(func(path string) bool {
			unread[path] = true
			return false
		})
		_, err = m.cfg.Local.Apply(ctx, func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
			list = nil
			return func(yield func(tree.Entry, error) bool) {
				// The list has directories before what is in them.
				for i := len(c.here) - 1; i >= 0; i-- {
					x := &c.here[i]
					if unread[x.Path] {
						continue
					}
					gone, err := m.yields(e, x)
					if gone {
						list = append(list, Change{Path: x.Path, Kind: x.Kind, What: Deleted, Size: x.Size})
					}
					if (gone || err != nil) && !yield(tree.Entry{Kind: tree.KindDelete, Path: x.Path}, err) {
						return
					}
				}
			}
		}, m.how(), func(e *tree.Edit) error {
			if len(list) == 0 {
				return nil
			}
			next := m.s
			next.notes.First, next.notes.Yielded = first, c.rev
			return m.store(e, &next)
		})
		return partly(err)
	})
	if err != nil {
		return 0, fmt.Errorf("remove what only this side has: %w", err)
	}
	removed := 0
	for _, c := range m.written(list) {
		if c.Kind != tree.KindDir {
			removed++
		}
		if m.cfg.OnChange != nil {
			m.cfg.OnChange(c)
		}
	}
	return removed, nil
}

// yields reports whether an entry that only this side has is to be removed, and keeps it.
func (m *Mirror) yields(e *tree.Edit, x *tree.Entry) (bool, error) {
	cur, err := e.Entry(x.Path)
	if errors.Is(err, iofs.ErrNotExist) || err == nil && !same(&cur, x) {
		return false, nil // it has changed meanwhile
	}
	if err != nil {
		return false, err
	}
	if x.Kind == tree.KindDir {
		info, err := e.Lstat(x.Path)
		if err != nil {
			return false, err
		}
		list, err := e.Tx().Children(info.Ino, "", 1)
		return err == nil && len(list) == 0, err
	}
	for _, p := range cur.Parts {
		if err := e.Secure(p.Hash); errors.Is(err, tree.ErrUnknownHash) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("keep a version of %s: %w", x.Path, err)
		}
	}
	return true, lost.Keep(e, &lost.Version{Path: x.Path, At: e.Now(), Why: lost.Undone, Entry: cur})
}
