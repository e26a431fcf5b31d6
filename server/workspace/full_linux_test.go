package workspace

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// smallDisk mounts a file system of 64 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64m"); errors.Is(err, unix.EPERM) {
		t.Skip("to mount a file system takes CAP_SYS_ADMIN")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// smallWorkspace is a workspace on such a disk, with its store. It returns the disk, too.
func smallWorkspace(t *testing.T) (dir string, cfg Config) {
	t.Helper()
	dir = smallDisk(t)
	cfg = Config{Dir: filepath.Join(dir, "w"), Store: filepath.Join(dir, "store.db"), MountPoint: "/nowhere/to/be", NoWatch: true}
	if err := os.Mkdir(cfg.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, cfg
}

// openUntilEnd opens a workspace that is closed when the test ends.
func openUntilEnd(t *testing.T, cfg Config) *Workspace {
	t.Helper()
	w, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// fill leaves no room on a disk.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// A store on a full disk is opened, checked and made smaller: what is needed for that is
// in reserve. So it is when the disk became full while the store was open.
func TestF5FullDisk(t *testing.T) {
	for _, open := range []bool{false, true} {
		dir := smallDisk(t)
		file := filepath.Join(dir, "store.db")
		var skew time.Duration
		openStore := func() (*sqlite.DB, *tree.Forest) {
			t.Helper()
			db, err := sqlite.Open(t.Context(), sqlite.Config{Path: file})
			if err != nil {
				t.Fatal(err)
			}
			return db, tree.New(db.Tree(), tree.Config{Now: func() time.Time { return time.Now().Add(skew) }})
		}
		db, forest := openStore()
		noise := rand.NewChaCha8([32]byte{2})
		for range 60 {
			var list []tree.Data
			for range 4 {
				b := make([]byte, 64<<10)
				_, _ = io.ReadFull(noise, b)
				list = append(list, tree.Data{Hash: tree.Sum(b), Bytes: b})
			}
			if _, err := forest.PutChunks(t.Context(), list...); err != nil {
				t.Fatal(err)
			}
		}
		if !open {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		fill(t, dir)
		if !open {
			db, forest = openStore()
		}
		skew = tree.MinUnseen + time.Minute
		done, err := collect(t.Context(), db, forest, tree.Policy{MaxBytes: -1})
		if err != nil || done.Chunks != 240 {
			t.Fatalf("%+v, %v", done, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Size() > 2<<20 {
			t.Errorf("the store has %d bytes, %v", info.Size(), err)
		}
		if _, free := sqlite.Room(dir); free < 8<<20 {
			t.Errorf("%d bytes are free", free)
		}
	}
}

// Objects that are mostly garbage are left for later where there is no room to write them anew; all
// else is collected.
func TestF5FullDiskWithObjects(t *testing.T) {
	dir, cfg := smallWorkspace(t)
	w := openUntilEnd(t, cfg)
	skew := time.Duration(0)
	forest := tree.New(w.DB.Tree(), tree.Config{Now: func() time.Time { return time.Now().Add(skew) }})
	forest.SetHome(disk.ObjectsOnly("/other", w.Objects))
	keep, err := forest.Tree(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	noise := rand.NewChaCha8([32]byte{4})
	gc := func() (done tree.Collected, err error) {
		err = w.keep.alone(t.Context(), func() (err error) { // the workspace tidies as well, since the disk is full
			done, err = collect(t.Context(), w.DB, forest, tree.Policy{MaxBytes: -1})
			return err
		})
		return done, err
	}
	// 20 MiB are in an object, of which files have more than the reserve can take.
	var list []tree.Data
	stage := forest.Stager()
	for i := range 40 {
		b := make([]byte, tree.ChunkSize)
		_, _ = io.ReadFull(noise, b)
		list = append(list, tree.Data{Hash: tree.Sum(b), Bytes: b, Last: i == 39})
		if err := stage.Put(t.Context(), list[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(stage.Flush(t.Context()), stage.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = keep.Update(t.Context(), func(e *tree.Edit) error {
		var parts []tree.Part
		for _, d := range list[:12] {
			parts = append(parts, tree.Part{Hash: d.Hash, Size: tree.ChunkSize})
		}
		_, err := e.Apply(&tree.Entry{Kind: tree.KindFile, Path: "/f", Mode: 0o644, Size: 12 * tree.ChunkSize, Parts: parts}, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, dir)
	skew = tree.MinUnseen + time.Minute
	done, err := gc()
	if err != nil || done.Chunks != 28 || done.Later != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	done, err = gc()
	if err != nil || done.Chunks != 0 || done.Later != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if n, err := forest.Verify(t.Context()); err != nil || n != 12 {
		t.Errorf("%d chunks are left: %v", n, err)
	}
}

// L1: content for which the disk has no room is refused with a code of its own, and leaves the room that
// there was.
func TestL1ContentWithoutRoom(t *testing.T) {
	_, cfg := smallWorkspace(t)
	w := openUntilEnd(t, cfg)
	noise := rand.NewChaCha8([32]byte{5})
	var list []tree.Data
	for range 128 {
		b := make([]byte, tree.ChunkSize)
		_, _ = io.ReadFull(noise, b)
		list = append(list, tree.Data{Hash: tree.Sum(b), Bytes: b})
	}
	err := w.Sync.PushObjects(t.Context(), changes.FromSlice(list))
	if changes.Code(err) != changes.CodeNoRoom {
		t.Errorf("64 MiB on a disk of 64 MiB: %v", err)
	}
	if files, err := os.ReadDir(cfg.Store + ".objects"); err != nil || len(files) > 0 {
		t.Errorf("left are %v, %v", files, err)
	}
	if err := w.Sync.PushObjects(t.Context(), changes.FromSlice(list[:64])); err != nil {
		t.Errorf("32 MiB: %v", err)
	}
}

// Content that was noted before the disk was full is given up on a disk without any room.
func TestL1GivingUpWithoutRoom(t *testing.T) {
	dir, cfg := smallWorkspace(t)
	w, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	noise := rand.NewChaCha8([32]byte{6})
	keep := w.Forest.Stager()
	for err = nil; err == nil; {
		b := make([]byte, tree.ChunkSize)
		_, _ = io.ReadFull(noise, b)
		if err = keep.Put(t.Context(), tree.Data{Hash: tree.Sum(b), Bytes: b}); err == nil {
			err = keep.Flush(t.Context())
		}
	}
	if !tree.NoRoom(err) {
		t.Error(err)
	}
	fill(t, dir)
	if err := errors.Join(keep.Abandon(t.Context()), keep.Close()); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(cfg.Store + ".objects"); err != nil || len(files) > 0 {
		t.Errorf("left are %v, %v", files, err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// A workspace is opened and checked on a full disk, also when there is something to take up.
func TestF5OpenOnFullDisk(t *testing.T) {
	dir, cfg := smallWorkspace(t)
	w, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "large"), []byte(strings.Repeat("x", 10<<20)), 0o644); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 12<<20)
	_, _ = io.ReadFull(rand.NewChaCha8([32]byte{3}), noise)
	if err := os.WriteFile(filepath.Join(cfg.Dir, "noise"), noise, 0o644); err != nil {
		t.Fatal(err)
	}
	fill(t, dir)
	for range 2 {
		if w, err = Open(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Collect(t.Context(), true); err != nil {
			t.Error(err)
		}
		_ = w.Close() // which cannot take up what there is no room for
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), cfg, func(f Finding) { t.Errorf("%+v", f) }); err != nil {
		t.Error(err)
	}
}

// A workspace is opened and checked on a disk without any room, whose reserve is used, and goes on
// once there is room.
func TestF5OpenWithoutReserve(t *testing.T) {
	dir := smallDisk(t)
	cfg := Config{Dir: t.TempDir(), Store: filepath.Join(dir, "store.db"), MountPoint: "/nowhere/to/be", NoWatch: true}
	w, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	// A run and the log of a process are as a killed server leaves them.
	err = w.DB.Log().Write(t.Context(), []eventlog.Change{
		{
			Log: 6, Info: &eventlog.Info{Origin: eventlog.OriginRun, ID: "left", Argv: []string{"make"}}, At: time.Now(),
			Events: []eventlog.Event{{Seq: 1, Kind: eventlog.KindOutput, Stream: shell.Stdout, Data: []byte("made")}},
		},
		{Log: 7, Info: &eventlog.Info{Origin: eventlog.OriginSession, ID: "p"}, At: time.Now()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(cfg.Store + ".reserve"); err != nil {
		t.Fatal(err)
	}
	fill(t, dir)
	if err := Check(t.Context(), cfg, func(f Finding) { t.Errorf("%+v", f) }); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "f"), []byte("there"), 0o644); err != nil {
		t.Fatal(err)
	}
	if w, err = Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, _, err := w.Runs.Exec(t.Context(), shell.Request{Command: "true"}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a command without room for its output: %v", err)
	}
	if events, err := w.Runs.Follow(t.Context(), "left", shell.After{}); err != nil {
		t.Errorf("the log of what was left: %v", err)
	} else {
		made, err := events.Next(t.Context())
		end, err2 := events.Next(t.Context())
		if err = errors.Join(err, err2); err != nil || string(made.Data) != "made" || end.Name != shell.Exit || end.Code != -1 {
			t.Errorf("the log of what was left: %+v, %+v, %v", made, end, err)
		}
		events.Close()
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	if _, events, err := w.Runs.Exec(t.Context(), shell.Request{Command: "true"}); err != nil {
		t.Error(err)
	} else {
		events.Close()
	}
	if runs, err := w.DB.Log().List(t.Context(), eventlog.Query{Origin: eventlog.OriginRun, Ended: true, Limit: 10}); err != nil || len(runs) == 0 || runs[len(runs)-1].ID != "left" {
		t.Errorf("%+v, %v", runs, err)
	}
	if _, err := w.Sync.Watermarks(t.Context(), true); err != nil {
		t.Error(err)
	}
	if e, err := w.Sync.ReadEntry(t.Context(), "/nowhere/to/be/f"); err != nil || e == nil {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := w.Collect(t.Context(), true); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(cfg.Store + ".reserve"); err != nil || info.Size() != 4<<20 {
		t.Errorf("the reserve: %+v, %v", info, err)
	}
}

// A command goes on when there is room for its output again, with nothing lost.
func TestF7CommandOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	cfg := Config{Dir: t.TempDir(), Store: filepath.Join(dir, "store.db"), MountPoint: "/nowhere/to/be", NoWatch: true}
	w := openUntilEnd(t, cfg)
	// It prints more than there is room for in what SQLite has allocated.
	const command = "while ! test -e go; do sleep 0.02; done; head -c 12000000 /dev/zero; echo end; exit 3"
	id, events, err := w.Runs.Exec(t.Context(), shell.Request{Command: command})
	if err != nil {
		t.Fatal(err)
	}
	events.Close()
	fill(t, dir)
	if err := os.WriteFile(filepath.Join(cfg.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// It waits: what it has printed is not all of it, and stays the same.
	follower, err := w.Runs.Follow(t.Context(), id, shell.After{})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	size := 0
	for full := false; !full; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		e, err := follower.Next(ctx)
		cancel()
		if full = errors.Is(err, context.DeadlineExceeded); err != nil && !full {
			t.Fatal(err)
		}
		if err == nil && e.Name == shell.Exit {
			t.Fatalf("exit %d on a full disk after %d bytes", e.Code, size)
		}
		size += len(e.Data)
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	for {
		e, err := follower.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		size += len(e.Data)
		if e.Name == shell.Exit {
			if e.Code != 3 || size != 12_000_000+len("end\n") {
				t.Errorf("exit %d after %d bytes", e.Code, size)
			}
			return
		}
	}
}

// L1: files for whose content there is no room, as copies of others, are all named at once.
func TestL1CopiesWithoutRoom(t *testing.T) {
	_, cfg := smallWorkspace(t)
	noise := rand.NewChaCha8([32]byte{7})
	for name, size := range map[string]int{"a": 24 << 20, "b": 1 << 10, "c": 22 << 20} {
		b := make([]byte, size)
		_, _ = io.ReadFull(noise, b)
		if err := os.WriteFile(filepath.Join(cfg.Dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := openUntilEnd(t, cfg)
	if _, err := w.Sync.Watermarks(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	var list []tree.Entry
	for _, name := range []string{"a", "b", "c"} {
		e, err := w.Sync.ReadEntry(t.Context(), cfg.MountPoint+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		e.Path += "2"
		list = append(list, *e)
	}
	_, err := w.Sync.Push(t.Context(), changes.PushInput{SenderRev: 1}, changes.FromSlice(list))
	if got := slices.Sorted(slices.Values(changes.Paths(err))); !slices.Equal(got, []string{cfg.MountPoint + "/a2", cfg.MountPoint + "/c2"}) || changes.Code(err) != changes.CodeNoRoom {
		t.Errorf("%q had no room: %v", got, err)
	}
	if _, err := w.Sync.Push(t.Context(), changes.PushInput{SenderRev: 1}, changes.FromSlice(list[1:2])); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(cfg.Dir)
	if err != nil || len(files) != 4 {
		t.Errorf("there are %v, %v", files, err)
	}
}
