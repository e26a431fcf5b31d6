package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// Config says what to open.
type Config struct {
	Dir string // is there; "" where a store is enough
	// MountPoint is where clients and commands see it; "" for /workspace.
	MountPoint string
	// Store is the file of the store; "" for DefaultStore.
	Store string
	// Durability is what is waited for before something is acknowledged.
	Durability sqlite.Durability
	// NoWatch looks at all of the directory whenever it must know what has changed,
	// rather than be told by the system.
	NoWatch bool
	// Ignore are names that hide a path of which they are a segment from peers that do
	// not say what they want hidden; nil for changes.DefaultIgnore, and on the computer's
	// wire for what its clients are used to at the path that they dial.
	Ignore []string
	// MaxLogBytes is how much output of a run is kept; 0 for shell.DefaultMaxLogBytes.
	MaxLogBytes int64
	// RunsAge is how long commands are kept that have ended, and RunsBytes is how much output
	// of all of them; 0 for eventlog.DefaultKeepFor and eventlog.DefaultKeepBytes.
	RunsAge   time.Duration
	RunsBytes int64
	// NoHistory, NoArgs and CommandEnded are NoHistory, NoArgs and Ended of eventlog.Config.
	NoHistory    bool
	NoArgs       bool
	CommandEnded func(*eventlog.Record)
	// Lost bounds the versions of files that something took the place of.
	Lost lost.Bounds
	// Garbage bounds the content that no file has any more.
	Garbage Garbage
	Logger  *slog.Logger // nil discards
}

// A Workspace is open: what it consists of, for whoever serves it.
type Workspace struct {
	Dir        string // absolute, without links
	MountPoint string
	Store      string // of which file
	// Born is when the store was made. No other one has the same time.
	Born time.Time
	// Ignore is that of the Config.
	Ignore []string
	DB     *sqlite.DB
	// Objects is the content that is neither in DB nor in Dir.
	Objects *objects.Dir
	Forest  *tree.Forest
	Tree    *tree.Tree
	Disk    *disk.Workspace
	// Mount places commands in the directory.
	Mount *process.Mount
	// Sync is who synchronises it, Runs are the durable runs.
	Sync *changes.Server
	Runs *shell.Shell
	// Recorder keeps the logs of runs, and of the processes of sessions.
	Recorder *eventlog.Recorder

	log     *slog.Logger
	point   *mountPoint
	keep    *keeper
	garbage Garbage
}

// closeTimeout bounds the last look at the directory.
const closeTimeout = 30 * time.Second

// Open opens a workspace and makes its store if there is none. What the directory has is
// in the tree when it returns, and what a crash left to be done is done. Errors:
// *sqlite.InUseError and those of packages sqlite and disk.
func Open(ctx context.Context, cfg Config) (*Workspace, error) {
	if cfg.Dir == "" {
		return nil, errors.New("open workspace: no directory")
	}
	cfg.MountPoint = cmp.Or(cfg.MountPoint, disk.DefaultMount)
	w := &Workspace{}
	err := w.locate(&cfg)
	if err == nil {
		err = checkPoint(w.Dir, cfg.MountPoint)
	}
	if err == nil {
		w, err = openStore(ctx, &cfg)
	}
	if err == nil {
		err = w.open(ctx, &cfg)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// ErrNoStore says that there is no store where one should be.
var ErrNoStore = errors.New("there is no store")

// OpenStore opens the store of a workspace, which must be there, and nothing else.
func OpenStore(ctx context.Context, cfg Config) (*Workspace, error) {
	w := &Workspace{}
	if err := w.locate(&cfg); err != nil {
		return nil, err
	}
	if _, err := os.Stat(w.Store); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoStore, w.Store)
	}
	w, err := openStore(ctx, &cfg)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// OpenDirectory opens the directory of a workspace of which OpenStore has opened the store, as Open does,
// so that a collection knows what files have. After an error the store can be used as before.
func (w *Workspace) OpenDirectory(ctx context.Context, cfg Config) error {
	cfg.NoWatch = true
	err := w.openDisk(ctx, &cfg)
	if err != nil {
		w.Forest.SetHome(disk.ObjectsOnly(tree.DefaultName, w.Objects))
	}
	return err
}

// openStore returns what must be closed, with an error too.
func openStore(ctx context.Context, cfg *Config) (*Workspace, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Workspace{MountPoint: cmp.Or(cfg.MountPoint, disk.DefaultMount), log: cfg.Logger, keep: newKeeper(), garbage: cfg.Garbage}
	err := w.locate(cfg)
	if err == nil {
		w.DB, err = sqlite.Open(ctx, sqlite.Config{Path: w.Store, Durability: cfg.Durability, Logger: w.log, Full: w.keep.full})
	}
	if err == nil {
		w.Objects, err = objects.Open(sqlite.ObjectsPath(w.Store))
	}
	if err == nil {
		w.Forest = tree.New(w.DB.Tree(), tree.Config{})
		w.Forest.SetHome(disk.ObjectsOnly(tree.DefaultName, w.Objects))
	}
	return w, err
}

func (w *Workspace) open(ctx context.Context, cfg *Config) error {
	if err := w.openDisk(ctx, cfg); err != nil {
		return err
	}
	w.point = mountAt(w.Dir, w.MountPoint)
	w.Mount = w.point.mount
	w.Ignore = cfg.Ignore
	// Beside the store is room for what is too much for memory.
	w.Sync = changes.New(changes.Config{Workspace: w.Disk, DefaultIgnore: w.Ignore, SpoolDir: filepath.Dir(w.Store), Logger: w.log})
	if err := w.openLog(ctx, cfg); err != nil {
		return err
	}
	if err := w.openRuns(cfg); err != nil {
		return err
	}
	w.keep.keepHouse(w.DB, w.Forest, Bounds{cfg.Lost, cfg.Garbage}, w.log)
	return nil
}

func (w *Workspace) openDisk(ctx context.Context, cfg *Config) (err error) {
	if w.Tree, err = w.Forest.Tree(ctx, tree.DefaultName); err != nil {
		return err
	}
	root, err := w.Tree.Lstat(ctx, "/")
	if err != nil {
		return err
	}
	w.Born = root.BTime
	w.Disk, err = disk.Open(ctx, disk.Config{
		Dir: w.Dir, Mount: w.MountPoint, Forest: w.Forest, Tree: w.Tree,
		Objects: w.Objects, Watch: !cfg.NoWatch, Sync: cfg.Durability == sqlite.Full, Logger: w.log,
	})
	return err
}

// locate finds the directory and the file of the store.
func (w *Workspace) locate(cfg *Config) (err error) {
	if cfg.Dir != "" {
		if w.Dir, err = resolve(cfg.Dir); err != nil {
			return err
		}
	}
	switch {
	case cfg.Store != "":
		w.Store, err = filepath.Abs(cfg.Store)
	case w.Dir != "":
		w.Store, err = DefaultStore(w.Dir)
	default:
		err = errors.New("neither a workspace nor a store is named")
	}
	if err != nil {
		return err
	}
	if w.Dir != "" && within(w.Store, w.Dir) {
		return fmt.Errorf("the store %s is in the workspace, and would be synchronised with it: choose another --store", w.Store)
	}
	return nil
}

// Unmounted says why commands do not find the directory at the mount point; nil if they
// do. They are started in the directory itself then.
func (w *Workspace) Unmounted() error {
	if w.point == nil {
		return nil
	}
	return w.point.missing
}

// Close ends what runs, takes up what it has written, and closes the store. Whoever uses
// the workspace has been ended before. A nil Workspace has nothing to close.
func (w *Workspace) Close() error {
	if w == nil {
		return nil
	}
	var errs []error
	if w.keep != nil {
		w.keep.close()
	}
	if w.Runs != nil {
		errs = append(errs, w.Runs.Close())
	}
	if w.Recorder != nil {
		errs = append(errs, w.Recorder.Close())
	}
	if w.Disk != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := w.Disk.Settle(ctx); err != nil && !errors.Is(err, disk.ErrNoDirectory) {
			errs = append(errs, err)
		}
		errs = append(errs, w.Disk.Close())
	}
	if w.point != nil {
		w.point.close()
	}
	if w.Objects != nil {
		errs = append(errs, w.Objects.Close())
	}
	if w.DB != nil {
		errs = append(errs, w.DB.Close())
	}
	return errors.Join(errs...)
}
