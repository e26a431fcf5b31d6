package disk_test

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// A tester is a test or a property's.
type tester interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// A bench is a workspace with its store.
type bench struct {
	t       tester
	dir     string
	store   string
	apart   string // the objects, if they are not beside the directory
	cfg     disk.Config
	gate    gate
	db      *sqlite.DB
	objects *objects.Dir
	forest  *tree.Forest
	tree    *tree.Tree
	ws      *disk.Workspace
}

// newBench opens a workspace on a new directory and a new store. It is checked when the
// test ends.
func newBench(t testing.TB, cfg disk.Config) *bench {
	t.Helper()
	b := benchAt(t, t.TempDir(), filepath.Join(fastDir(t), "store"), cfg)
	t.Cleanup(func() {
		if b.ws != nil {
			b.settle()
			b.check()
			b.close()
		}
	})
	return b
}

// fastDir is a temporary directory in memory, if there is such a thing: databases sync.
func fastDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "wsd-disk-") //nolint:usetesting // That makes none there.
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// benchAt opens a workspace in an empty directory of ours.
func benchAt(t tester, dir, store string, cfg disk.Config) *bench {
	t.Helper()
	b := &bench{t: t, dir: filepath.Join(dir, "dir"), store: filepath.Join(store, "ws.db"), cfg: cfg}
	b.must(os.Mkdir(b.dir, 0o755))
	b.open()
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

var emptyStore = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "wsd-disk-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	db, err := sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(dir, "db")})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(db.Path())
})

func (b *bench) openStore() {
	b.t.Helper()
	if _, err := os.Stat(b.store); err != nil {
		// To make a new one takes longer than most tests.
		data, err := emptyStore()
		b.must(err)
		b.must(os.MkdirAll(filepath.Dir(b.store), 0o700))
		b.must(os.WriteFile(b.store, data, 0o600))
	}
	db, err := sqlite.Open(context.Background(), sqlite.Config{Path: b.store, Readers: 2})
	b.must(err)
	b.db = db
	b.gate.Store = db.Tree()
	b.forest = tree.New(&b.gate, tree.Config{})
	b.objects, err = objects.Open(stdcmp.Or(b.apart, b.dir+".objects"))
	b.must(err)
	b.tree, err = b.forest.Tree(context.Background(), tree.DefaultName)
	b.must(err)
}

func (b *bench) open() {
	b.t.Helper()
	b.openStore()
	cfg := b.cfg
	cfg.Dir, cfg.Forest, cfg.Tree, cfg.Objects = b.dir, b.forest, b.tree, b.objects
	ws, err := disk.Open(context.Background(), cfg)
	b.must(err)
	b.ws = ws
}

func (b *bench) close() {
	b.t.Helper()
	b.must(b.ws.Close())
	b.closeStore()
	b.ws = nil
}

func (b *bench) closeStore() {
	b.t.Helper()
	b.must(b.objects.Close())
	b.must(b.db.Check(context.Background()))
	b.must(b.db.Close())
}

func (b *bench) reopen() {
	b.t.Helper()
	b.close()
	b.open()
}

func (b *bench) settle() {
	b.t.Helper()
	b.must(b.ws.Settle(context.Background()))
}

// check compares directory, tree and store.
func (b *bench) check() {
	b.t.Helper()
	if err := b.ws.Consistent(context.Background()); err != nil {
		b.t.Error(err)
	}
	if err := b.ws.Check(context.Background()); err != nil {
		b.t.Error(err)
	}
	if err := b.forest.Check(context.Background()); err != nil {
		b.t.Error(err)
	}
}

// path is where something is on disk, by the name that the tree has for it or by its bytes.
func (b *bench) path(name string) string { return filepath.Join(b.dir, rawname.Raw(name)) }

func (b *bench) write(name, text string) {
	b.t.Helper()
	b.must(os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	b.must(os.WriteFile(b.path(name), []byte(text), 0o644))
}

// parts stores content and returns the parts of it.
func (b *bench) parts(text string) []tree.Part {
	b.t.Helper()
	parts, err := b.forest.Stage(context.Background(), strings.NewReader(text))
	b.must(err)
	return parts
}

var entryTime = time.Unix(1_700_000_000, 123_000_000)

func (b *bench) file(path, text string, mode uint32) tree.Entry {
	b.t.Helper()
	return tree.Entry{Kind: tree.KindFile, Path: path, Mode: mode, MTime: entryTime, Size: int64(len(text)), Parts: b.parts(text)}
}

func folder(path string, mode uint32) tree.Entry {
	return tree.Entry{Kind: tree.KindDir, Path: path, Mode: mode, MTime: entryTime}
}

func link(path, target string) tree.Entry {
	return tree.Entry{Kind: tree.KindSymlink, Path: path, Target: target, MTime: entryTime}
}

func remove(path string) tree.Entry { return tree.Entry{Kind: tree.KindDelete, Path: path} }

func seq(entries []tree.Entry) func(*tree.Edit) iter.Seq2[tree.Entry, error] {
	return func(*tree.Edit) iter.Seq2[tree.Entry, error] {
		return func(yield func(tree.Entry, error) bool) {
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func (b *bench) apply(entries ...tree.Entry) changes.Applied {
	b.t.Helper()
	done, err := b.ws.Apply(context.Background(), seq(entries), tree.SkipSame, nil)
	b.must(err)
	return done
}

// onDisk lists a directory: for each path its mode and content.
func onDisk(t tester, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		rel = rawname.Encode(rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fmt.Sprintf("%04o", unixMode(info.Mode()))
		switch {
		case rel == ".":
		case info.IsDir():
			out[rel] = "dir " + mode
		case info.Mode()&iofs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			out[rel] = "link " + rawname.Encode(target)
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[rel] = "file " + mode + " " + brief(data)
		default:
			out[rel] = "special"
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func unixMode(m iofs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, value := range map[iofs.FileMode]uint32{iofs.ModeSetuid: 0o4000, iofs.ModeSetgid: 0o2000, iofs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			mode |= value
		}
	}
	return mode
}

func brief(data []byte) string {
	if len(data) <= 40 {
		return string(data)
	}
	return fmt.Sprint(len(data), " bytes ", tree.Sum(data))
}

// inTree lists what the tree has below the mount, as onDisk does.
func (b *bench) inTree() map[string]string {
	b.t.Helper()
	out := map[string]string{}
	var files []string
	err := b.tree.Walk(context.Background(), "/workspace", func(i *tree.FileInfo) error {
		rel := strings.TrimPrefix(strings.TrimPrefix(i.Path, "/workspace"), "/")
		switch {
		case rel == "":
		case i.Kind == tree.KindDir:
			out[rel] = fmt.Sprintf("dir %04o", i.Mode)
		case i.Kind == tree.KindSymlink:
			out[rel] = "link " + i.Target
		default:
			out[rel] = fmt.Sprintf("file %04o ", i.Mode)
			files = append(files, rel)
		}
		return nil
	})
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		b.t.Fatal(err)
	}
	for _, rel := range files {
		data, err := b.tree.ReadFile(context.Background(), "/workspace/"+rel, 1<<30)
		if errors.Is(err, tree.ErrUnknownHash) {
			out[rel] += "(gone)" // its file has other content, or is closed to us
			continue
		}
		b.must(err)
		out[rel] += brief(data)
	}
	return out
}

// want compares directory and tree with what is expected.
func (b *bench) want(want map[string]string) {
	b.t.Helper()
	if diff := cmp.Diff(want, onDisk(b.t, b.dir)); diff != "" {
		b.t.Errorf("directory (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, b.inTree()); diff != "" {
		b.t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func (b *bench) same() {
	b.t.Helper()
	if diff := cmp.Diff(onDisk(b.t, b.dir), b.inTree()); diff != "" {
		b.t.Errorf("directory and tree differ (-directory +tree):\n%s", diff)
	}
}

// changed lists the paths of the tree that changed after a revision.
func (b *bench) changed(after int64) []string {
	b.t.Helper()
	c, err := b.tree.Changes(context.Background(), tree.ChangesQuery{After: tree.At(after)})
	b.must(err)
	set := map[string]struct{}{}
	for e, err := range c.All(context.Background()) {
		b.must(err)
		sign := "+"
		if e.Kind == tree.KindDelete {
			sign = "-"
		}
		set[sign+strings.TrimPrefix(e.Path, "/workspace/")] = struct{}{}
	}
	return slices.Sorted(maps.Keys(set))
}

func (b *bench) rev() int64 {
	b.t.Helper()
	info, err := b.tree.Info(context.Background())
	b.must(err)
	return info.Rev
}
