package workspace

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// An open workspace collects what nothing refers to by itself, after its time and not
// before, and what a file has never.
func TestKeeperCollects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
		if err != nil {
			t.Fatal(err)
		}
		forest := tree.New(db.Tree(), tree.Config{})
		data := func(text string) tree.Data { return tree.Data{Hash: tree.Sum([]byte(text)), Bytes: []byte(text)} }
		garbage, used := data("garbage"), data("used")
		if _, err := forest.PutChunks(ctx, garbage, used); err != nil {
			t.Fatal(err)
		}
		of, err := forest.Tree(ctx, tree.DefaultName)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := of.Update(ctx, func(e *tree.Edit) error {
			return e.PutFile("/file", tree.File{Parts: []tree.Part{{Hash: used.Hash, Size: int64(len(used.Bytes))}}})
		}); err != nil {
			t.Fatal(err)
		}
		held := func(d tree.Data) bool {
			_, err := forest.Chunk(ctx, d.Hash, nil)
			return err == nil
		}
		k := newKeeper()
		roomy := func(string) (size, free int64) { return 1 << 40, 1 << 39 }
		k.keepHouse(db, forest, Bounds{Garbage: Garbage{room: roomy}}, slog.New(slog.DiscardHandler))
		time.Sleep(tree.DefaultUnseen + tree.DefaultGrace - time.Minute)
		synctest.Wait()
		if !held(garbage) {
			t.Error("collected before its time")
		}
		time.Sleep(2 * CollectInterval)
		synctest.Wait()
		if held(garbage) {
			t.Error("not collected")
		}
		if !held(used) {
			t.Error("what a file has was collected")
		}
		k.close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// An open workspace forgets by itself the versions beyond its bounds.
func TestKeeperTrims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
		if err != nil {
			t.Fatal(err)
		}
		forest := tree.New(db.Tree(), tree.Config{})
		of, err := forest.Tree(ctx, tree.DefaultName)
		if err != nil {
			t.Fatal(err)
		}
		v := lost.Version{Path: "/workspace/link", At: time.Now(), Why: lost.Conflict, Entry: tree.Entry{Kind: tree.KindSymlink, Target: "to"}}
		if _, err := of.Update(ctx, func(e *tree.Edit) error { return lost.Keep(e, &v) }); err != nil {
			t.Fatal(err)
		}
		kept := func() bool {
			_, err := lost.Get(ctx, forest, v.ID)
			return err == nil
		}
		k := newKeeper()
		k.keepHouse(db, forest, Bounds{Lost: lost.Bounds{Age: 2 * time.Hour}}, slog.New(slog.DiscardHandler))
		time.Sleep(2 * firstCollect)
		synctest.Wait()
		if !kept() {
			t.Error("forgotten before its time")
		}
		time.Sleep(2*time.Hour + CollectInterval)
		synctest.Wait()
		if kept() {
			t.Error("not forgotten")
		}
		k.close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Five artifacts that were pushed and deleted leave the store small, long before their hour:
// garbage is bounded by bytes, and sooner when the disk is full.
func TestF5DeletedArtifactsLeaveTheStoreSmall(t *testing.T) {
	const artifact, most = 8 << 20, 4 << 20 // as 200 MB and 100
	for _, full := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			file := filepath.Join(t.TempDir(), "store.db")
			k := newKeeper()
			db, err := sqlite.Open(ctx, sqlite.Config{Path: file, Full: k.full})
			if err != nil {
				t.Fatal(err)
			}
			forest := tree.New(db.Tree(), tree.Config{})
			of, err := forest.Tree(ctx, tree.DefaultName)
			if err != nil {
				t.Fatal(err)
			}
			bounds := Bounds{Garbage: Garbage{Bytes: most, Share: -1}}
			var free atomic.Int64
			free.Store(50 << 20)
			if full {
				bounds.Garbage.Bytes = -1
			}
			bounds.Garbage.room = func(string) (int64, int64) { return 100 << 20, free.Load() }
			k.keepHouse(db, forest, bounds, slog.New(slog.DiscardHandler))
			noise := rand.NewChaCha8([32]byte{1})
			for range 5 {
				var f tree.File
				for range artifact / tree.ChunkSize {
					d := tree.Data{Bytes: make([]byte, tree.ChunkSize)}
					_, _ = noise.Read(d.Bytes)
					d.Hash = tree.Sum(d.Bytes)
					if _, err := forest.PutChunks(ctx, d); err != nil {
						t.Fatal(err)
					}
					f.Parts = append(f.Parts, tree.Part{Hash: d.Hash, Size: tree.ChunkSize})
				}
				for _, change := range []func(*tree.Edit) error{
					func(e *tree.Edit) error { return e.PutFile("/artifact", f) },
					func(e *tree.Edit) error { return e.Remove("/artifact", false) },
				} {
					if _, err := of.Update(ctx, change); err != nil {
						t.Fatal(err)
					}
				}
			}
			size := func() int64 {
				synctest.Wait()
				info, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				return info.Size()
			}
			time.Sleep(tree.MinUnseen - time.Minute)
			if n := size(); n < 5*artifact/2 {
				t.Errorf("%d bytes are left: what a push may refer to was collected", n)
			}
			time.Sleep(2*CollectInterval + time.Minute)
			if full { // without a bound, until there is no room
				if n := size(); n < 5*artifact/2 {
					t.Errorf("%d bytes are left", n)
				}
				free.Store(0)
				k.full()
				time.Sleep(urgentCollect)
			}
			if n := size(); n > most+4<<20 {
				t.Errorf("the store has %d bytes", n)
			}
			k.close()
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The bound is the least of the bytes and the share of the disk, and nothing when there is
// little room.
func TestGarbagePolicy(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		g          Garbage
		size, free int64
		want       int64
	}{
		{Garbage{}, 0, 0, gib},
		{Garbage{}, 1000 * gib, 500 * gib, gib},
		{Garbage{}, 10 * gib, 5 * gib, 10 * gib / 100 * 2},
		{Garbage{Bytes: 5 * gib, Share: -1}, 10 * gib, 5 * gib, 5 * gib},
		{Garbage{Bytes: -1}, 10 * gib, 5 * gib, 10 * gib / 100 * 2},
		{Garbage{Bytes: -1, Share: 50}, 10 * gib, 5 * gib, 10 * gib / 100 * 50},
		{Garbage{Bytes: -1, Share: -1}, 10 * gib, 5 * gib, 0},
		{Garbage{Bytes: -1, Share: -1}, 10 * gib, gib / 10, -1},
		{Garbage{}, 10 * gib, gib / 10, -1},
	} {
		if got := tt.g.policyFor(tt.size, tt.free); got != (tree.Policy{MaxBytes: tt.want}) {
			t.Errorf("%+v of %d, %d free: %+v, want %d", tt.g, tt.size, tt.free, got, tt.want)
		}
	}
}
