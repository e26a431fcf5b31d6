package disk

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// Config says which directory stands for what.
type Config struct {
	Dir   string // is there
	Mount string // the path of the tree that it stands for, "" for DefaultMount
	// Forest and Tree are in a store whose transactions are Rows.
	Forest *tree.Forest
	Tree   *tree.Tree
	// Objects has the content that has no place in Dir, best on the same file system.
	Objects *objects.Dir
	// Emptied: an empty Dir is the one of before, also if it is another one. Its content is
	// deleted from the tree.
	Emptied bool
	// Watch: the system tells what changes. Without it each Settle looks at everything.
	Watch bool
	// Unsettled: Open leaves what has changed in Dir to the first Settle. Until then Tree has what
	// it had. Not with Emptied.
	Unsettled bool
	// Sync: what was applied survives a power cut. It costs a sync of the file system for
	// each batch.
	Sync     bool
	Parallel int          // how many files are read or written at once, 0 for twice the processors
	Logger   *slog.Logger // nil for none
}

// DefaultMount is where published clients have the workspace.
const DefaultMount = "/workspace"

// ErrNoDirectory says that the workspace's directory is not there. The tree stays as it
// was; when there is a directory again that is not empty, that is the workspace.
var ErrNoDirectory = errors.New("the workspace's directory is gone")

var (
	errLong    = errors.New("longer than a tree can have it")
	errTarget  = errors.New("a link to a text that is blank, or longer than a tree can have it")
	errSpecial = errors.New("neither file, directory nor link")
	// errInTheWay says that no entry can come to a path. It stays stuck until that is gone.
	errInTheWay = fmt.Errorf("a pipe, socket or device is in its place: %w", unix.EEXIST)
)

// A Workspace is a directory in step with a tree. It is safe for concurrent use.
type Workspace struct {
	cfg   Config
	log   *slog.Logger
	stats counters
	skips skips
	// limits are those of limits.go; tests have smaller ones.
	limits limits
	// hook is for tests: it is called at the moments that their names say, and what it
	// returns happens there.
	hook func(op, path string) error
	// room is freeBytes; tests have disks of any size.
	room func(fd int) (int64, bool)
	// noFiles is that of the system; tests have disks with room for any number.
	noFiles func(fd int) bool
	// trusts is trusted; tests have file systems of others.
	trusts func(fd int) error
	// reflink is that of the system; tests have file systems that can do it.
	reflink func(dst, src int) error

	home *home
	// rescued counts files that were to be removed and are objects now.
	rescued int
	// unplaced are objects that files were made, and that the store does not know yet. placing guards it.
	placing  sync.Mutex
	unplaced []*object
	// apart: objects are on another file system.
	apart atomic.Bool
	// unshared: files cannot share blocks.
	unshared atomic.Bool

	// turn is held by whoever looks at the directory or changes it: what follows is theirs.
	turn   chan struct{}
	closed bool
	root   Root
	state  rootState
	index  *index
	watch  *watcher                // nil while nobody tells of changes
	told   atomic.Pointer[watcher] // the same, for those without the turn
	// full: the next settle looks at everything.
	full bool
	// stale: the index is not what the rows say, and is to be read again.
	stale bool
	// late is what TakeLate returns next, counted how often it was called.
	late, counted atomic.Int64
	// pending: the journal has rows. stuck has the journal's paths that could not be written to disk and have
	// been reported, stuckDirs the directories above them.
	pending   bool
	stuck     map[string]stuckPath
	stuckDirs map[string]struct{}
	// onlyRoom: the journal has nothing but what is stuck for want of room.
	onlyRoom bool
	// fresh: the journal has nothing but what it had when the workspace was opened.
	fresh bool
	// prints are the manifests of files that the index has and that the journal is to replace or remove.
	// It has those of files that may have changed without a trace, and of stuck paths.
	prints map[string]tree.Hash
	// unclean: what a crash has left has not been disposed of. replaced is what the index had,
	// when it was opened, of paths that were brought since.
	unclean  bool
	replaced map[string]stat
	// littered: a version is still under a name of ours, as if a crash had left it.
	littered atomic.Bool
	// begun is since when the command of SettleEnded may have written, in nanoseconds since
	// 1970; 0 for other calls.
	begun int64
	// gradual is what this call was given to settle some at a time, nil for all at once.
	gradual *gradual

	outMu sync.Mutex
	outs  []outgoing
	// retired are looked at by reaper, if it is not nil, and no more once reaped is set.
	retired []retired
	reaper  *time.Timer
	reaping sync.WaitGroup
	reaped  bool
}

var _ changes.Workspace = (*Workspace)(nil)

// Open brings directory and tree in step: what a crash has left to be written is written,
// then what has changed in the directory is settled, unless that is left to the caller.
func Open(ctx context.Context, cfg Config) (*Workspace, error) {
	w, err := open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open workspace %s: %w", cfg.Dir, err)
	}
	return w, nil
}

func open(ctx context.Context, cfg Config) (*Workspace, error) {
	if cfg.Mount == "" {
		cfg.Mount = DefaultMount
	}
	if err := tree.CheckPath(cfg.Mount); err != nil {
		return nil, err
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 2 * runtime.GOMAXPROCS(0)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	abs, err := filepath.Abs(cfg.Dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, err
	}
	cfg.Dir = abs
	w := &Workspace{cfg: cfg, log: cfg.Logger, turn: make(chan struct{}, 1), index: newIndex(), limits: standard, room: freeBytes, noFiles: noFiles, trusts: trusted, reflink: reflink, full: true, unclean: true, fresh: true}
	w.home = &home{w: w, name: cfg.Tree.Name(), dir: cfg.Objects, log: cfg.Logger}
	w.apart.Store(!sameMount(cfg.Objects.Path(), cfg.Dir))
	cfg.Forest.SetHome(w.home)
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// start brings directory and tree in step. It has the turn: files that it retires are looked at soon.
func (w *Workspace) start(ctx context.Context) error {
	w.turn <- struct{}{}
	defer w.release()
	fd, st, err := w.openRoot()
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if err := w.attach(ctx, fd, st); err != nil {
		return err
	}
	if err := w.recoverAll(ctx, fd); err != nil {
		return err
	}
	w.startWatching(fd)
	if w.cfg.Unsettled {
		return nil
	}
	if err := w.settle(ctx, fd, st); errors.Is(err, unix.ENOSPC) {
		w.log.WarnContext(ctx, "there is no room to take up what has changed; it is tried again", "dir", w.cfg.Dir, "err", err)
	} else if err != nil {
		return err
	}
	return nil
}

// Forest is where the content is.
func (w *Workspace) Forest() *tree.Forest { return w.cfg.Forest }

// Tree is what the directory is in step with. Nobody else may change what it has below
// the mount.
func (w *Workspace) Tree() *tree.Tree { return w.cfg.Tree }

// Close waits for what is under way. The workspace cannot be used afterwards.
func (w *Workspace) Close() error {
	defer w.reaping.Wait()
	w.turn <- struct{}{}
	defer w.release()
	w.endReaping()
	if !w.closed && w.watch != nil {
		w.told.Store(nil)
		w.watch.close()
		w.watch = nil
	}
	w.closed = true
	return nil
}

// ErrClosed is returned for calls after Close.
var ErrClosed = errors.New("the workspace is closed")

// begin waits for the turn and opens the directory; the caller releases the turn and
// closes the descriptor unless there is an error.
func (w *Workspace) begin(ctx context.Context) (int, stat, error) {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return -1, stat{}, context.Cause(ctx)
	}
	if w.closed {
		w.release()
		return -1, stat{}, ErrClosed
	}
	fd, st, err := w.openRoot()
	if err == nil {
		if err = w.refuseEmpty(fd, st); err != nil {
			closeFD(fd)
		}
	}
	if err != nil {
		w.release()
	}
	return fd, st, err
}

// refuseEmpty refuses an empty directory that has come to the place of one that was not:
// that is what a file system leaves which was unmounted, and nobody has deleted what was
// in it. attach, at the next start, fills it.
func (w *Workspace) refuseEmpty(fd int, st stat) error {
	if w.index.count == 0 || w.index.root.stat.sameDir(&st) {
		return nil
	}
	names, err := allNames(fd)
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%w, and an empty one is in its place: bring it back (was it mounted?), or end this, move the store away and begin anew with the empty one", ErrNoDirectory)
	}
	return err
}

func (w *Workspace) release() {
	w.skips.takeRaw(w.index)
	<-w.turn
}

// openRoot opens the directory, which need not be the one that it was before.
func (w *Workspace) openRoot() (int, stat, error) {
	fd, err := openRoot(w.cfg.Dir)
	if gone(err) {
		return -1, stat{}, fmt.Errorf("%w: %w", ErrNoDirectory, err)
	}
	if err != nil {
		return -1, stat{}, err
	}
	st, err := statFD(fd)
	if err != nil {
		closeFD(fd)
	}
	return fd, st, err
}

// treePath is what the tree calls a path of the directory.
func (w *Workspace) treePath(path string) string {
	return slashpath.Join(w.cfg.Mount, path)
}

// where is a path of the tree in the directory; false for one that is not below the mount.
func (w *Workspace) where(path string) (string, bool) {
	return slashpath.Cut(path, w.cfg.Mount)
}

// skipped counts what is left out, and says so once for each reason.
func (w *Workspace) skipped(err error, path string) {
	c, why := &w.stats.denied, "cannot be read"
	switch {
	case errors.Is(err, errLong), errors.Is(err, errTarget):
		c, why = &w.stats.names, "a name or a link's target is too long"
	case errors.Is(err, errSpecial):
		c, why = &w.stats.special, "neither file, directory nor link"
	case gone(err):
		return
	}
	if c.Add(1) == 1 {
		w.log.Warn("the workspace has what cannot be kept in step; it is left out", "why", why, "path", path, "err", err)
	}
}

func errIsInvalid(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, iofs.ErrInvalid)
}

// fault is where tests let something happen.
func (w *Workspace) fault(op, path string) error {
	if w.hook == nil {
		return nil
	}
	return pathError(op, path, w.hook(op, path))
}

type counters struct {
	passes, settled, files, read, brought, overtaken, names, special, denied atomic.Int64
}

// Stats is what a Workspace has done since it was opened.
type Stats struct {
	Paths     int   // in the index
	Passes    int64 // how often all of the directory was looked at
	Settled   int64 // changes that went from the directory into the tree
	FilesRead int64
	BytesRead int64
	Brought   int64 // paths that went from the tree to the directory
	Overtaken int64 // versions that a command wrote and an entry replaced before they were settled
	// How often something was left out: for its name, because it is neither file,
	// directory nor link, because it could not be read.
	SkippedNames, SkippedSpecial, SkippedUnreadable int64
}

// Stats waits for what is under way.
func (w *Workspace) Stats() Stats {
	w.turn <- struct{}{}
	defer w.release()
	s := &w.stats
	return Stats{
		Paths: w.index.count, Passes: s.passes.Load(), Settled: s.settled.Load(),
		FilesRead: s.files.Load(), BytesRead: s.read.Load(), Brought: s.brought.Load(), Overtaken: s.overtaken.Load(),
		SkippedNames: s.names.Load(), SkippedSpecial: s.special.Load(), SkippedUnreadable: s.denied.Load(),
	}
}
