package workspace

import (
	"log/slog"
	"path/filepath"
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
		k := keepHouse(db, forest, lost.Bounds{}, slog.New(slog.DiscardHandler))
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
		k := keepHouse(db, forest, lost.Bounds{Age: 2 * time.Hour}, slog.New(slog.DiscardHandler))
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
