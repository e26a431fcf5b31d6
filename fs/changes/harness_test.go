package changes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// An end is a workspace of a memory store with its server, and a clock.
type end struct {
	*changes.Server
	testing.TB
	store  tree.Store
	forest *tree.Forest
	tree   *tree.Tree
	now    time.Time
}

func newEnd(t testing.TB) *end { return endOn(t, tree.NewMemory(), changes.Config{}) }

// endOn is an end on a store, checked as the test ends.
func endOn(t testing.TB, store tree.Store, cfg changes.Config) *end {
	t.Helper()
	e := &end{TB: t, store: store, now: time.Unix(1_800_000_000, 0)}
	e.forest = tree.New(store, tree.Config{Now: func() time.Time { return e.now }, FirstRev: 1})
	var err error
	if e.tree, err = e.forest.Tree(context.Background(), tree.DefaultName); err != nil {
		t.Fatal(err)
	}
	if cfg.Workspace == nil {
		cfg.Workspace = changes.Plain(e.forest, e.tree)
	}
	e.Server = changes.New(cfg)
	t.Cleanup(func() {
		if err := e.forest.Check(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// do runs a script: one change a line.
func (e *end) do(script string) {
	e.Helper()
	for line := range strings.Lines(script) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if err := e.change(f[0], f[1:]); err != nil {
			e.Fatalf("%s: %v", strings.TrimSpace(line), err)
		}
	}
}

func (e *end) change(verb string, args []string) error {
	args = append(args, "", "")
	if verb == "write" {
		_, err := e.tree.WriteFile(context.Background(), args[0], strings.NewReader(args[1]), tree.File{})
		return err
	}
	_, err := e.tree.Update(context.Background(), func(d *tree.Edit) error {
		switch verb {
		case "mkdir":
			return d.Mkdir(args[0], 0o755, true)
		case "rm":
			return d.Remove(args[0], true)
		case "mv":
			return d.Rename(args[0], args[1])
		case "link":
			return d.Symlink(args[1], args[0])
		case "chmod":
			var mode uint32
			if _, err := fmt.Sscanf(args[1], "%o", &mode); err != nil {
				return err
			}
			return d.Chmod(args[0], mode)
		}
		return fmt.Errorf("what is %s?", verb)
	})
	return err
}

// all is what there is: path to kind, mode and content.
func (e *end) all() map[string]string {
	e.Helper()
	out := map[string]string{}
	err := e.tree.Walk(context.Background(), "/", func(i *tree.FileInfo) error {
		out[i.Path] = describe(i.Kind, i.Mode, i.Manifest, i.Target)
		return nil
	})
	if err != nil {
		e.Fatal(err)
	}
	return out
}

func describe(kind tree.Kind, mode uint32, manifest tree.Hash, target string) string {
	switch kind {
	case tree.KindFile:
		return fmt.Sprintf("file %o %s", mode, manifest)
	case tree.KindSymlink:
		return "link " + target
	default:
		return fmt.Sprintf("%s %o", kind, mode)
	}
}

// paths is the sorted paths of what there is, but the root.
func (e *end) paths() string {
	e.Helper()
	list := slices.Sorted(maps.Keys(e.all()))
	return strings.Join(list[1:], " ")
}

func (e *end) text(path string) string {
	e.Helper()
	b, err := e.tree.ReadFile(context.Background(), path, 1<<20)
	if err != nil {
		e.Fatal(err)
	}
	return string(b)
}

// marks are the watermarks that can be compared.
type marks struct {
	CurrentRev, PushRev int64
	Fetch               tree.Cursor
	Lost                int64
}

func (e *end) marks() marks {
	e.Helper()
	w, err := e.Watermarks(context.Background(), false)
	if err != nil || !w.ChecksBase {
		e.Fatal(w, err)
	}
	return marks{w.CurrentRev, w.PushRev, w.Fetch, w.Lost}
}

// keep stores contents as objects.
func (e *end) keep(contents ...string) {
	e.Helper()
	for _, c := range contents {
		for chunk := range slices.Chunk([]byte(c), tree.ChunkSize) {
			err := e.PushObjects(context.Background(), changes.FromSlice([]tree.Data{{Hash: tree.Sum(chunk), Bytes: chunk}}))
			if err != nil {
				e.Fatal(err)
			}
		}
	}
}

// push pushes entries as a peer at a revision, 0 for nobody.
// push pushes entries that come over the wire.
func (e *end) push(rev int64, entries ...tree.Entry) (changes.PushResult, error) {
	i := -1
	return e.Push(context.Background(), changes.PushInput{SenderRev: rev}, changes.FromFunc(func(context.Context) (tree.Entry, error) {
		if i++; i == len(entries) {
			return tree.Entry{}, io.EOF
		}
		return changes.EntryFromWire(changes.EntryToWire(&entries[i]))
	}, func(error) {}))
}

func (e *end) mustPush(rev int64, entries ...tree.Entry) changes.PushResult {
	e.Helper()
	out, err := e.push(rev, entries...)
	if err != nil {
		e.Fatal(err)
	}
	return out
}

// since lists what changed after a cursor.
func (e *end) since(after tree.Cursor, ignore ...string) []tree.Entry {
	e.Helper()
	if ignore == nil {
		ignore = []string{}
	}
	f, err := e.FetchChanges(context.Background(), changes.FetchQuery{After: after, Ignore: ignore})
	if err != nil {
		e.Fatal(err)
	}
	list, err := changes.Collect(context.Background(), f.Entries)
	if err != nil {
		e.Fatal(err)
	}
	return list
}

// brief is a list of entries as kinds and paths.
func brief(list []tree.Entry) string {
	var out []string
	for _, e := range list {
		out = append(out, e.Kind.String()+" "+e.Path)
	}
	return strings.Join(out, ", ")
}

var entryTime = time.UnixMilli(1_700_000_000_123)

func fileEntry(rev int64, path string, mode uint32, content string) tree.Entry {
	e := tree.Entry{Kind: tree.KindFile, Rev: rev, Path: path, Mode: mode, MTime: entryTime, Size: int64(len(content))}
	for chunk := range slices.Chunk([]byte(content), tree.ChunkSize) {
		e.Parts = append(e.Parts, tree.Part{Hash: tree.Sum(chunk), Size: int64(len(chunk))})
	}
	return e
}

func dirEntry(rev int64, path string, mode uint32) tree.Entry {
	return tree.Entry{Kind: tree.KindDir, Rev: rev, Path: path, Mode: mode, MTime: entryTime}
}

func linkEntry(rev int64, path, target string) tree.Entry {
	return tree.Entry{Kind: tree.KindSymlink, Rev: rev, Path: path, Mode: tree.LinkMode, MTime: entryTime, Target: target}
}

func gone(rev int64, path string) tree.Entry {
	return tree.Entry{Kind: tree.KindDelete, Rev: rev, Path: path}
}

// failing gives items and then an error.
func failing[T any](err error, items ...T) changes.Stream[T] {
	return changes.FromFunc(func(context.Context) (item T, _ error) {
		if len(items) == 0 {
			return item, err
		}
		item, items = items[0], items[1:]
		return item, nil
	}, nil)
}

var errCut = errors.New("the line was cut")

// raw makes the bytes of a stream of pieces.
func raw(t testing.TB, in changes.Stream[[]byte]) []byte {
	t.Helper()
	pieces, err := changes.Collect(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Join(pieces, nil)
}

// inPieces cuts bytes into a stream.
func inPieces(b []byte, size int) changes.Stream[[]byte] {
	return changes.FromFunc(func(context.Context) ([]byte, error) {
		if len(b) == 0 {
			return nil, io.EOF
		}
		n := min(size, len(b))
		piece := b[:n]
		b = b[n:]
		return piece, nil
	}, nil)
}
