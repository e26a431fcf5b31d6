package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A RootError says that the remote has no directory at Config.RemoteRoot, and that nothing was
// changed: it has something else there or above it, or has removed what both sides had.
type RootError struct {
	Root string    // Config.RemoteRoot
	Path string    // the root, or a path above it
	Kind tree.Kind // of what is at Path, tree.KindDelete for nothing
	// RenamedTo is where the directory at Path is now, "" if that is not known: Mirror.Root does not find it.
	RenamedTo string
}

// Gone reports whether both sides had the directory, and the remote has removed it.
func (e *RootError) Gone() bool { return e.Kind == tree.KindDelete }

// Error says what is there.
func (e *RootError) Error() string {
	switch {
	case e.RenamedTo != "":
		return fmt.Sprintf("%s was renamed to %s at the remote", e.Path, e.RenamedTo)
	case e.Gone():
		return e.Path + " was removed at the remote"
	}
	return fmt.Sprintf("%s is a %s at the remote, and no directory", e.Path, e.Thing())
}

// Thing is a word for what is there in place of a directory.
func (e *RootError) Thing() string {
	if e.Kind == tree.KindSymlink {
		return "link"
	}
	return e.Kind.String()
}

// aboveRemote reports whether a path of the remote's is its root, or above it.
func (r roots) aboveRemote(path string) bool {
	return r.remote != "" && path != "/" && slashpath.Within(r.remote, path)
}

// atRoot is the error about an entry of the remote's, nil for none. had says that both sides had the
// root, and that it may not be removed.
func (m *Mirror) atRoot(e *tree.Entry, had bool) error {
	if e.Kind == tree.KindDir || e.Kind == tree.KindDelete && !had || !m.roots.aboveRemote(e.Path) {
		return nil
	}
	return &RootError{Root: m.roots.remote, Path: e.Path, Kind: e.Kind, RenamedTo: e.RenamedTo}
}

// keepsRoot reports whether a remote that has removed its root is not followed.
func (m *Mirror) keepsRoot() bool { return !m.cfg.Undo && !m.cfg.MayEmpty && !m.s.strangers() }

// rooted is a stream of the remote's changes that fails at one of its root.
func (m *Mirror) rooted(in changes.Stream[tree.Entry], had bool) changes.Stream[tree.Entry] {
	return changes.FromFunc(func(ctx context.Context) (tree.Entry, error) {
		e, err := in.Next(ctx)
		if err == nil {
			err = m.atRoot(&e, had)
		}
		if root, ok := errors.AsType[*RootError](err); ok && root.Gone() {
			err = cmp.Or(m.readRoot(ctx, false), err) // something else may be there, above it
		}
		return e, err
	}, in.Close)
}

// readRoot asks the remote for its root, or what is there in place of a directory above it.
func (m *Mirror) readRoot(ctx context.Context, had bool) error {
	if m.roots.remote == "" {
		return nil
	}
	var gone error
	for path := m.roots.remote; path != "/"; path = above(path) {
		e, err := m.remote().ReadEntry(ctx, path)
		if err != nil {
			return fmt.Errorf("read %s at the remote: %w", path, err)
		}
		if e == nil {
			continue
		}
		err = m.atRoot(e, had)
		if e.Kind != tree.KindDelete {
			return cmp.Or(err, gone)
		}
		gone = cmp.Or(gone, err)
	}
	return gone
}

// Root asks the remote for its root. It fails with a RootError if something else is there, or if both
// sides had it and it was removed.
func (m *Mirror) Root(ctx context.Context) error {
	return m.alone(ctx, func() error {
		m.fresh = false
		s, err := m.loadState(ctx)
		if err != nil {
			return fmt.Errorf("load the cursors: %w", err)
		}
		return m.readRoot(ctx, !s.strangers())
	})
}
