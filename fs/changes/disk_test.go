package changes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/tree"
)

// TestModelDisk is TestModel with a directory at the server, in which commands make the
// changes. In the end it is what its tree is as well.
func TestModelDisk(t *testing.T) {
	n := "30"
	if raceEnabled {
		n = "5"
	}
	withChecks(t, n)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan.Draw(rt, "plan")
		t.Run("plan", func(t *testing.T) {
			if err := playOnDisk(t, p); err != nil {
				t.Fatalf("%v\n%s, blocks of %d\n%v", err, p.Style, p.Block, p.Steps)
			}
		})
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}

func playOnDisk(t *testing.T, p plan) error {
	ctx := context.Background()
	db, dir := database(t), t.TempDir()
	e := &end{TB: t, store: db.Tree(), now: time.Now()}
	e.forest = tree.New(e.store, tree.Config{FirstRev: 1})
	var err error
	if e.tree, err = e.forest.Tree(ctx, tree.DefaultName); err != nil {
		return err
	}
	ws, err := disk.Open(ctx, disk.Config{Dir: dir, Mount: "/workspace", Forest: e.forest, Tree: e.tree, Objects: openObjects(t, dir+".objects")})
	if err != nil {
		return err
	}
	defer ws.Close()
	e.Server = changes.New(changes.Config{Workspace: ws})
	w := &world{TB: t, server: e, hostStore: tree.NewMemory(), now: time.Unix(1_800_000_000, 0), root: "/workspace"}
	w.onDisk = func(s step) error {
		if err := onDisk(dir, s); err != nil {
			return err
		}
		return ws.Settle(ctx)
	}
	w.host = &host{style: p.Style, block: p.Block}
	w.forget()
	w.start(-1, -1)
	if err := w.settle(); err != nil { // the host has the directory
		return err
	}
	for i, s := range p.Steps {
		switch s.Do {
		case "copy", "older", "lost", "collect":
			continue
		}
		s.Dies = -1
		if err := w.step(s); err != nil {
			return fmt.Errorf("step %d, %v: %w", i, s, err)
		}
	}
	if err := w.settle(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return ws.Check(ctx)
}

// onDisk is what a command does in a directory. What cannot be done is left.
func onDisk(dir string, s step) error {
	at := func(p string) string { return filepath.Join(dir, strings.TrimPrefix(p, "/workspace")) }
	path := at(s.Args[0])
	var err error
	switch s.Do {
	case "write":
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, []byte(s.Args[1]), 0o644)
		}
	case "replace":
		if err = os.RemoveAll(path); err == nil {
			err = os.WriteFile(path, nil, 0o644)
		}
	case "mkdir":
		err = os.MkdirAll(path, 0o755)
	case "rm":
		err = os.RemoveAll(path)
	case "mv":
		err = os.Rename(path, at(s.Args[1]))
	case "link":
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.Symlink(strings.TrimPrefix(s.Args[1], "/workspace/"), path)
		}
	case "chmod":
		if info, serr := os.Lstat(path); serr == nil && info.Mode()&iofs.ModeSymlink == 0 {
			var mode uint32
			if _, err := fmt.Sscanf(s.Args[1], "%o", &mode); err != nil {
				return err
			}
			err = os.Chmod(path, os.FileMode(mode))
		}
	}
	var refused *iofs.PathError
	var link *os.LinkError
	if errors.As(err, &refused) || errors.As(err, &link) {
		return nil
	}
	return err
}

// openObjects opens a directory for content, until the test ends.
func openObjects(t testing.TB, path string) *objects.Dir {
	t.Helper()
	dir, err := objects.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

// The windows of a file that come one after the other are one object, however many transactions
// they take, and it becomes the file.
func TestLongFileIsOneObject(t *testing.T) {
	const windows = 10 // more than one transaction keeps
	content := make([]byte, (windows-1)*tree.ChunkSize+7)
	var data []tree.Data
	var parts []tree.Part
	for at := 0; at < len(content); at += tree.ChunkSize {
		content[at] = byte(1 + at/tree.ChunkSize)
		b := content[at:min(at+tree.ChunkSize, len(content))]
		data = append(data, tree.Data{Hash: tree.Sum(b), Bytes: b})
		parts = append(parts, tree.Part{Hash: tree.Sum(b), Size: int64(len(b))})
	}
	entry := tree.Entry{Kind: tree.KindFile, Path: "/workspace/f", Rev: 1, Mode: 0o644, MTime: time.Unix(1_800_000_000, 0), Size: int64(len(content)), Parts: parts}
	for name, push := range map[string]func(*changes.Server) error{
		"objects": func(s *changes.Server) error { return s.PushObjects(t.Context(), changes.FromSlice(data)) },
		"pack": func(s *changes.Server) error {
			from := newEnd(t)
			if _, err := from.forest.PutChunks(t.Context(), data...); err != nil {
				return err
			}
			from.mustPush(1, entry)
			pack, err := from.FetchChangePack(t.Context(), packQuery(10, 1<<30))
			if err != nil {
				return err
			}
			_, err = s.ApplyChangePack(t.Context(), "g1", pack.Pieces)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &end{TB: t, store: database(t).Tree(), now: time.Now()}
			e.forest = tree.New(e.store, tree.Config{FirstRev: 1})
			var err error
			if e.tree, err = e.forest.Tree(t.Context(), tree.DefaultName); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			left := openObjects(t, dir+".objects")
			ws, err := disk.Open(t.Context(), disk.Config{Dir: dir, Mount: "/workspace", Forest: e.forest, Tree: e.tree, Objects: left})
			if err != nil {
				t.Fatal(err)
			}
			defer ws.Close()
			e.Server = changes.New(changes.Config{Workspace: ws})
			if err := push(e.Server); err != nil {
				t.Fatal(err)
			}
			if name == "objects" {
				e.mustPush(1, entry)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if err := left.Each(func(object, size int64) error {
				t.Errorf("object %x of %d bytes is left: the file is a copy", object, size)
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
}
