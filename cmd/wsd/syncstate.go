package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
	"github.com/wsd-dev/wsd/server/workspace"
)

// errNoState says that nothing is known of a directory.
var errNoState = errors.New("no 'wsd sync' keeps a state of it")

// statesOf finds the files with what is known of a directory, or of the nearest one above
// it that has any. The directory need not be there.
func statesOf(dir string) ([]string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for at := abs; ; at = filepath.Dir(at) {
		stores, err := keptAt(at)
		if err != nil || len(stores) > 0 {
			return stores, err
		}
		if at == filepath.Dir(at) {
			return nil, withHint(fmt.Errorf("%s: %w, nor of a directory above it", abs, errNoState), "--state FILE names the state, or the store of a server that is not running")
		}
	}
}

// keptAt finds the files with what is known of a directory: states, or else the store of a server.
func keptAt(dir string) ([]string, error) {
	state, err := workspace.StateDir()
	if err != nil {
		return nil, err
	}
	stores, err := statesAt(dir)
	served := filepath.Join(state, "workspaces", workspace.StoreName(dir)+".db")
	if _, serr := os.Stat(served); err == nil && len(stores) == 0 && serr == nil {
		stores = []string{served}
	}
	return stores, err
}

// statesAt finds the files with what is known of a directory and a server.
func statesAt(dir string) ([]string, error) {
	state, err := workspace.StateDir()
	if err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(globQuoted(state), "sync", workspace.StoreName(dir)+"-*.db"))
}

// tellNested says that a directory is in one that is synchronised as well, when it is synchronised for the
// first time.
func (j *syncJob) tellNested() {
	if at := j.local.nestedIn(); at != "" {
		j.out.note("%s is in %s, which 'wsd sync' keeps in step too: what comes here goes on from there, and the other way round", safe(j.local.dir), safe(at))
	}
}

// nestedIn finds the nearest directory above one that is synchronised as well, when the directory is
// synchronised for the first time; "" if there is none.
func (l *syncLocal) nestedIn() string {
	if !l.made {
		return ""
	}
	for at := l.dir; at != filepath.Dir(at); {
		at = filepath.Dir(at)
		if stores, err := statesAt(at); err == nil && len(stores) > 0 {
			return at
		}
	}
	return ""
}

// globQuoted is a path as a pattern that matches it alone.
func globQuoted(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// A keptState is an open file with what is known of a directory.
type keptState struct {
	store   string // of which file
	forest  *tree.Forest
	tree    *tree.Tree
	objects *objects.Dir
	dirs    map[string][2]string // directory and mount by the directory of a path
	close   func() error
}

// openState opens a file that is there.
func openState(ctx context.Context, file string) (*keptState, error) {
	w, err := workspace.OpenStore(ctx, workspace.Config{Store: file})
	switch {
	case errors.Is(err, sqlite.ErrInUse):
		return nil, explainInUse(ctx, err, "a 'wsd sync' or 'wsd serve' has it open: wait for its end, or end it, and try again")
	case errors.Is(err, workspace.ErrNoStore):
		return nil, withHint(err, "--state names the file that 'wsd sync --state' or 'wsd serve --store' named")
	case err != nil:
		return nil, err
	}
	t, err := w.Forest.Tree(ctx, tree.DefaultName)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return &keptState{store: w.Store, forest: w.Forest, tree: t, objects: w.Objects, dirs: map[string][2]string{}, close: w.Close}, nil
}

// where is the directory for a path of the tree, and the path in it.
func (s *keptState) where(ctx context.Context, path string) (dir, name string, err error) {
	above := path[:max(strings.LastIndexByte(path, '/'), 1)]
	found, known := s.dirs[above]
	if !known {
		if found[0], found[1], err = disk.Directory(ctx, s.tree, above); err != nil {
			return "", "", err
		}
		s.dirs[above] = found
	}
	if found[0] == "" {
		return "", path, nil
	}
	return found[0], strings.TrimPrefix(strings.TrimPrefix(path, found[1]), "/"), nil
}

// A keptVersion is a version in a state.
type keptVersion struct {
	*lost.Version
	store string
	dir   string // "" when none is known
	name  string // of the path in it
}

// file is the path on disk, and shown is that for people.
func (v *keptVersion) file() string {
	return filepath.Join(v.dir, filepath.FromSlash(rawname.Raw(v.name)))
}

// isBelow reports whether a version is of a path or below it: also if that is "", or its directory is not known.
func (v *keptVersion) isBelow(path string) bool {
	file := v.file()
	return path == "" || v.dir == "" || file == path || strings.HasPrefix(file, strings.TrimSuffix(path, "/")+"/")
}

func (v *keptVersion) shown() string { return rawname.Show(v.file()) }

// typedPaths are the paths that may be meant with one of a command line: itself, what it is in the form
// that --json has, and what it is as people read it.
func typedPaths(path string) []string {
	list := []string{path}
	for _, other := range []string{rawname.Raw(path), rawname.Parse(path)} {
		if !slices.Contains(list, other) {
			list = append(list, other)
		}
	}
	return list
}

// versions calls fn for the versions that a state keeps and whose number is greater than after, the oldest first.
func (s *keptState) versions(ctx context.Context, after int64, fn func(*keptVersion) error) error {
	return lost.List(ctx, s.forest, after, func(v *lost.Version) error {
		kept, err := s.version(ctx, v)
		if err != nil {
			return err
		}
		return fn(kept)
	})
}

// get returns the version with a number, of a path in the tree.
func (s *keptState) get(ctx context.Context, id int64, path string) (*keptVersion, error) {
	v, err := lost.Get(ctx, s.forest, id)
	if err != nil {
		return nil, fmt.Errorf("read version %d: %w", id, err)
	}
	if v.Path != path {
		return nil, fmt.Errorf("version %d is of another path", id)
	}
	return s.version(ctx, v)
}

func (s *keptState) version(ctx context.Context, v *lost.Version) (*keptVersion, error) {
	dir, name, err := s.where(ctx, v.Path)
	return &keptVersion{Version: v, store: s.store, dir: dir, name: name}, err
}

// withKept calls fn for an open state.
func withKept(ctx context.Context, file string, fn func(*keptState) error) error {
	s, err := openState(ctx, file)
	if err != nil {
		return err
	}
	return errors.Join(fn(s), s.close())
}

// dirOfState is the directory that a state is of, "" if none is known. It looks into a state that is in use.
func dirOfState(ctx context.Context, file string) (dir string, err error) {
	err = withKept(ctx, file, func(s *keptState) (err error) {
		dir, _, err = s.where(ctx, localMount+"/.")
		return err
	})
	if errors.Is(err, sqlite.ErrInUse) {
		if about, peeked := aboutOf(ctx, file); peeked == nil && about.Dir != "" {
			return about.Dir, nil
		}
	}
	return dir, err
}

// emptied reports whether a directory is gone or has nothing in it.
func emptied(dir string) (bool, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return true, nil
	}
	return len(list) == 0, err
}
