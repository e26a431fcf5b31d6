package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
	"github.com/wsd-dev/wsd/server/workspace"
)

// localMount is where the directory is in the tree of its store.
const localMount = disk.DefaultMount

// syncLocal is the local side of a synchronisation.
type syncLocal struct {
	dir    string // absolute, without links
	db     *sqlite.DB
	forest *tree.Forest
	disk   *disk.Workspace
	ignore []string // of its own file
	bounds lost.Bounds
	swept  time.Time // when the store was last made smaller
}

// openSyncLocal opens a directory and what is known of it and a server. watch has the
// system tell what changes.
func openSyncLocal(ctx context.Context, dir, remote string, f *syncFlags, watch bool) (_ *syncLocal, err error) {
	store := f.store
	made, err := ensureDir(dir)
	if err != nil {
		return nil, err
	}
	l := &syncLocal{bounds: f.lost.bounds(), swept: time.Now()}
	if l.dir, err = filepath.EvalSymlinks(dir); err == nil {
		l.dir, err = filepath.Abs(l.dir)
	}
	if err == nil && store == "" {
		store, err = syncStore(l.dir, remote)
	}
	if err == nil {
		store, err = filepath.Abs(store)
	}
	if err != nil {
		return nil, err
	}
	if rel, err := filepath.Rel(l.dir, store); err == nil && filepath.IsLocal(rel) {
		return nil, fmt.Errorf("%s is in the directory that it is about: choose another --state", store)
	}
	if l.ignore, err = readIgnoreFile(filepath.Join(l.dir, ignoreFile)); err != nil {
		return nil, err
	}
	if err := l.open(ctx, store, made, watch); err != nil {
		return nil, errors.Join(explainLocal(err), l.close())
	}
	return l, nil
}

// ensureDir makes a directory that is not there. Only the last of its path may be missing.
func ensureDir(dir string) (made bool, err error) {
	err = os.Mkdir(dir, 0o755)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, iofs.ErrExist) {
		return false, fmt.Errorf("make the directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", dir)
	}
	return false, err
}

// syncStore is where it is kept what is known of a directory and a server.
func syncStore(dir, remote string) (string, error) {
	file, err := workspace.DefaultStore(dir)
	if err != nil {
		return "", err
	}
	state := filepath.Dir(filepath.Dir(file))
	sum := sha256.Sum256([]byte(remote))
	name := strings.TrimSuffix(filepath.Base(file), ".db") + "-" + hex.EncodeToString(sum[:8]) + ".db"
	return filepath.Join(state, "sync", name), nil
}

func (l *syncLocal) open(ctx context.Context, store string, made, watch bool) (err error) {
	if l.db, err = sqlite.Open(ctx, sqlite.Config{Path: store}); err != nil {
		return err
	}
	l.forest = tree.New(l.db.Tree(), tree.Config{})
	t, err := l.forest.Tree(ctx, tree.DefaultName)
	if err != nil {
		return err
	}
	if err := l.checkEmptied(ctx, t, made); err != nil {
		return err
	}
	l.disk, err = disk.Open(ctx, disk.Config{Dir: l.dir, Mount: localMount, Forest: l.forest, Tree: t, Watch: watch})
	return err
}

// checkEmptied refuses a directory that had files and has nothing now: more likely it is
// not the one that was meant, or not mounted, than that all is to be removed at the server.
func (l *syncLocal) checkEmptied(ctx context.Context, t *tree.Tree, made bool) error {
	info, err := t.Info(ctx)
	if err != nil || info.Files == 0 {
		return err
	}
	if !made {
		d, err := os.Open(l.dir)
		if err != nil {
			return err
		}
		defer d.Close()
		if _, err := d.Readdirnames(1); !errors.Is(err, io.EOF) {
			return err
		}
	}
	if made {
		_ = os.Remove(l.dir) // as it was
	}
	return withHint(fmt.Errorf("%s had %d files when it was last synchronised, and has nothing now", l.dir, info.Files),
		"if all of it is to go at the server too, leave one file in it; to begin anew, remove "+l.db.Path())
}

// sweep forgets lost versions beyond the bounds, and collects garbage.
func (l *syncLocal) sweep(ctx context.Context) error {
	l.swept = time.Now()
	_, err := lost.Trim(ctx, l.forest, l.bounds, l.swept)
	_, collected := l.forest.Collect(ctx, tree.Policy{})
	return errors.Join(err, collected)
}

// close sweeps and closes what is open.
func (l *syncLocal) close() error {
	var err error
	if l.disk != nil {
		err = errors.Join(l.sweep(context.Background()), l.disk.Close())
	}
	if l.db != nil {
		err = errors.Join(err, l.db.Close())
	}
	return err
}

// readIgnoreFile reads names, one a line; blank lines and those that begin with # are for
// people.
func readIgnoreFile(path string) ([]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		name := strings.TrimSuffix(strings.TrimSpace(lines.Text()), "/")
		if name == "" || name[0] == '#' {
			continue
		}
		if err := checkIgnored(name); err != nil {
			return nil, fmt.Errorf("%s:%d: %q: %w", path, n, name, err)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, lines.Err()
}
