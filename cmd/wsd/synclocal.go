package main

import (
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
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/sqlite"
	"github.com/wsd-dev/wsd/server/workspace"
)

// localMount is where the directory is in the tree of its store.
const localMount = disk.DefaultMount

// syncLocal is the local side of a synchronisation.
type syncLocal struct {
	dir     string        // absolute, without links
	root    iofs.FileInfo // of dir as it was opened
	db      *sqlite.DB
	objects *objects.Dir
	forest  *tree.Forest
	disk    *disk.Workspace
	bounds  workspace.Bounds
	swept   time.Time // when the store was last made smaller
	// forgot is told of lost versions that were too large, if it is set.
	forgot func(lost.Trimmed)
	full   atomic.Bool // the disk was full since
	temp   string      // a directory that goes as it is closed, "" for none
	made   bool        // the store is new
	named  bool        // the store is one of --state
	// others are what the states of the directory with other servers are about, if the store is new.
	others []syncAbout
	// parts are the other directories in the server's workspace that the directory has been in step with, ""
	// for all of it, if the store is new.
	parts []string
	// unread is why other states of the directory could not be read, if the store is new.
	unread []error
	// makes are the directories that were made, the outermost first. With gone they are removed as it
	// is closed, with the store.
	makes []string
	gone  bool
	// replaced is what is served where the server was, nil for its workspace.
	replaced *replacedServer
	// moved is what the state is about with another directory at the place of the one that it was about, nil
	// for the same one.
	moved *syncAbout
	// refusal is what a run that is not dry ends with, nil for nothing.
	refusal error
}

// openSyncLocal opens a directory and what is known of it and a server. With dry nothing is
// made: what is not there is made elsewhere and goes with close.
func openSyncLocal(ctx context.Context, dir string, target *syncTarget, remote *syncRemote, f *syncFlags, dry bool) (_ *syncLocal, err error) {
	if err := f.checkPlace(dir); err != nil {
		return nil, err
	}
	if err := remote.overlaps(dir); err != nil {
		return nil, err
	}
	l := &syncLocal{bounds: workspace.Bounds{Lost: f.lost.bounds(), Garbage: f.garbage.bounds()}, swept: time.Now(), named: f.store != ""}
	store, err := l.place(dir, target.identity(f.remotePath), f.store, dry)
	if err == nil {
		err = remote.overlapsState(store)
	}
	if err == nil {
		l.root, err = os.Lstat(l.dir)
	}
	var about syncAbout
	if err == nil {
		about, err = remote.about(l.dir, target)
	}
	if err == nil && l.made && f.store == "" {
		var same string
		if same, err = l.elsewhere(ctx, &about); same != "" {
			store, l.made = same, false
		}
		if err == nil && f.remotePath == "" && len(l.parts) > 0 {
			err = refusePart(l.dir, remote, l.parts)
		}
		if err != nil {
			l.unmake()
			err = explainLocal(ctx, err)
		}
	}
	if err == nil {
		err = explainLocal(ctx, l.open(ctx, store, &about, f, dry))
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// place finds the directory and the file of the store, and makes the directory.
func (l *syncLocal) place(dir, identity, store string, dry bool) (string, error) {
	_, missing := os.Stat(dir)
	switch {
	case missing == nil:
	case dry:
		if err := l.makeTemp(); err != nil {
			return "", err
		}
		dir = filepath.Join(l.temp, "empty")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return "", err
		}
	default:
		if err := os.Mkdir(dir, 0o755); err == nil {
			l.makes = append(l.makes, dir)
		} else if !errors.Is(err, iofs.ErrExist) {
			return "", fmt.Errorf("make the directory: %w", err)
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		l.dir, err = filepath.Abs(real)
	}
	if err == nil && store == "" {
		store, err = syncStore(l.dir, identity)
	}
	if err == nil {
		store, err = filepath.Abs(store)
	}
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(l.dir, store); err == nil && filepath.IsLocal(rel) {
		return "", usagef("choose another --state", "%s is in %s, and would be synchronised with it", store, l.dir)
	}
	if _, err := os.Stat(store); errors.Is(err, iofs.ErrNotExist) {
		l.made = true
		if dry {
			err := l.makeTemp()
			return filepath.Join(l.temp, "state.db"), err
		}
		l.makes = append(l.makes, missingAbove(store)...)
	}
	return store, nil
}

// checkSame refuses another directory at the place of the one that was opened: what is not in it would be
// taken for removed.
func (l *syncLocal) checkSame() error {
	now, err := os.Lstat(l.dir)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return refused("bring it back and run it again, or with --state "+quoted(l.db.Path())+" where it is now", "%s was removed or renamed while it was kept in step; nothing was changed for that", safe(l.dir))
	case err != nil:
		return fmt.Errorf("look at the directory: %w", err)
	case !os.SameFile(l.root, now):
		return refused("bring it back and run it again, or with --state "+quoted(l.db.Path())+" where it is now; with the one that is there now, a run removes at the server what that does not have: --dry-run lists it",
			"%s was replaced while it was kept in step: another one has its name now; nothing was changed for that", safe(l.dir))
	}
	return nil
}

// missingAbove lists the directories above a file that are not there, the outermost first.
func missingAbove(file string) []string {
	var list []string
	for dir := filepath.Dir(file); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, iofs.ErrNotExist) {
			break
		}
		list = append(list, dir)
	}
	slices.Reverse(list)
	return list
}

// makeTemp makes a directory for what a dry run needs.
func (l *syncLocal) makeTemp() (err error) {
	if l.temp == "" {
		l.temp, err = os.MkdirTemp("", "wsd-dry-run-")
	}
	return err
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

// open opens the state and the directory. The system reports changes of the directory from
// then on, so that all of it is looked at once only. Where it cannot, each look is at
// everything, and nothing else differs. The first look is left to the synchronisation, unless what
// it finds says what is ignored.
func (l *syncLocal) open(ctx context.Context, store string, about *syncAbout, f *syncFlags, dry bool) error {
	t, err := l.openStore(ctx, store)
	if err == nil {
		err = l.checkAbout(ctx, t, about, dry)
	}
	if err != nil {
		return err
	}
	emptied, err := l.checkEmptied(ctx, t, &f.maxDelete)
	if err == nil && !emptied {
		err = l.checkReplacedDir(ctx, t, &f.maxDelete)
	}
	if dry && (emptied || isRefused(err)) {
		// That all has gone must not come into the state.
		emptied, l.refusal = true, err
		t, err = l.openCopy(ctx, store)
	}
	if err != nil {
		return err
	}
	ruled, err := l.hasRules(ctx, t, f)
	if err != nil {
		return err
	}
	l.disk, err = disk.Open(ctx, disk.Config{
		Dir: l.dir, Mount: localMount, Forest: l.forest, Tree: t, Objects: l.objects, Watch: true, Emptied: emptied, Unsettled: !ruled && !emptied,
	})
	return err
}

// openStore opens a state.
func (l *syncLocal) openStore(ctx context.Context, store string) (_ *tree.Tree, err error) {
	if l.db, err = sqlite.Open(ctx, sqlite.Config{Path: store, Full: func() { l.full.Store(true) }}); err != nil {
		return nil, err
	}
	if l.objects, err = objects.Open(sqlite.ObjectsPath(store)); err != nil {
		return nil, err
	}
	l.forest = tree.New(l.db.Tree(), tree.Config{})
	l.forest.SetHome(disk.ObjectsOnly(tree.DefaultName, l.objects))
	return l.forest.Tree(ctx, tree.DefaultName)
}

// openCopy opens a copy of the state that is open, which goes as it is closed.
func (l *syncLocal) openCopy(ctx context.Context, store string) (*tree.Tree, error) {
	err := errors.Join(l.objects.Close(), l.db.Close())
	l.objects, l.db = nil, nil
	if err == nil {
		err = l.makeTemp()
	}
	if err != nil {
		return nil, err
	}
	to := filepath.Join(l.temp, "state.db")
	if err := copyFile(store, to); err != nil {
		return nil, fmt.Errorf("copy the state: %w", err)
	}
	if err := copyFile(store+"-wal", to+"-wal"); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return nil, fmt.Errorf("copy the state: %w", err)
	}
	return l.openStore(ctx, to)
}

// copyFile copies a file to one that is not there.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// hasRules reports whether files in the directory may say what is ignored, or have said so the last
// time.
func (l *syncLocal) hasRules(ctx context.Context, t *tree.Tree, f *syncFlags) (bool, error) {
	if f.rules.git {
		return true, nil
	}
	_, err := os.Lstat(filepath.Join(l.dir, ignoreFile))
	if !errors.Is(err, iofs.ErrNotExist) {
		return true, nil //nolint:nilerr // it is there, whatever it is
	}
	e, err := t.Entry(ctx, localMount+"/"+ignoreFile)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	return err == nil && e.Kind != tree.KindDelete, err
}

// due reports whether it is time to make the store smaller.
func (l *syncLocal) due() bool {
	return l.full.Load() || time.Since(l.swept) >= workspace.CollectInterval
}

// room is how many bytes there are free beside the state, if that is known.
func (l *syncLocal) room() (free int64, known bool) {
	size, free := sqlite.Room(filepath.Dir(l.db.Path()))
	return free, size > 0
}

// sweep forgets lost versions and deletes garbage beyond the bounds.
func (l *syncLocal) sweep(ctx context.Context) error {
	l.swept = time.Now()
	l.full.Store(false)
	done, err := workspace.Tidy(ctx, l.db, l.forest, l.bounds)
	if done.Lost.TooLarge > 0 && l.forgot != nil {
		l.forgot(done.Lost)
	}
	return err
}

// collect deletes garbage, for 'wsd gc'. It is safe beside all else.
func (l *syncLocal) collect(ctx context.Context, now bool) (protocol.CollectResult, error) {
	done, err := workspace.Collect(ctx, l.db, l.forest, l.bounds.Garbage, now)
	return protocol.CollectResult{Chunks: done.Chunks, Bytes: done.Bytes, Marked: done.Marked}, err
}

// close sweeps and closes what is open.
func (l *syncLocal) close() error {
	var err error
	if l.disk != nil {
		if !l.gone {
			err = l.sweep(context.Background())
		}
		err = errors.Join(err, l.disk.Close())
	}
	if l.objects != nil {
		err = errors.Join(err, l.objects.Close())
	}
	if l.db != nil {
		err = errors.Join(err, l.db.Close())
	}
	if l.gone {
		l.remove()
	}
	if l.temp != "" {
		err = errors.Join(err, os.RemoveAll(l.temp))
	}
	return err
}

// forget has a store that is new removed as it is closed: nothing was brought in step.
func (l *syncLocal) forget() { l.gone = l.made }

// remove removes the store, and the directories that were made and are empty. It ignores errors: a file
// that stays is of no use, and does no harm.
func (l *syncLocal) remove() {
	for _, path := range sqlite.Files(l.db.Path()) {
		_ = os.Remove(path)
	}
	_ = os.RemoveAll(sqlite.ObjectsPath(l.db.Path()))
	l.unmake()
}

// unmake removes the directories that were made and are empty.
func (l *syncLocal) unmake() {
	for _, dir := range slices.Backward(l.makes) {
		_ = os.Remove(dir)
	}
}
