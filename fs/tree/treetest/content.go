package treetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

// random is n bytes that no other seed gives.
func random(n int, seed uint64) []byte {
	r := rand.NewPCG(seed, 1)
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint64())
	}
	return out
}

func content(t *testing.T, open func(testing.TB) tree.Store) {
	for _, n := range []int{0, 1, tree.ChunkSize - 1, tree.ChunkSize, tree.ChunkSize + 1, 3 * tree.ChunkSize, 9*tree.ChunkSize + 5} {
		t.Run(fmt.Sprintf("%d bytes", n), func(t *testing.T) {
			b := newBench(t, open(t))
			want := random(n, 1)
			if _, err := b.tree.WriteFile(t.Context(), "/f", iotest.HalfReader(bytes.NewReader(want)), tree.File{}); err != nil {
				t.Fatal(err)
			}
			got, err := b.tree.ReadFile(t.Context(), "/f", int64(n))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			e, err := b.tree.Entry(t.Context(), "/f")
			if err != nil || e.Size != int64(n) || len(e.Parts) != (n+tree.ChunkSize-1)/tree.ChunkSize {
				t.Errorf("%d bytes in %d parts, %v", e.Size, len(e.Parts), err)
			}
			for i, p := range e.Parts {
				chunk := want[i*tree.ChunkSize : min((i+1)*tree.ChunkSize, n)]
				if p.Hash != tree.Sum(chunk) || p.Size != int64(len(chunk)) {
					t.Errorf("part %d is %v", i, p)
				}
			}
		})
	}
	for name, fn := range map[string]func(*bench){
		"one byte moves one chunk": oneByte, "open version": openVersion, "bad chunks": badChunks, "bad parts": badParts,
		"failing reader": failingReader, "reading": reading, "held": held, "pinned": pinned,
	} {
		t.Run(name, func(t *testing.T) { fn(newBench(t, open(t))) })
	}
}

func oneByte(b *bench) {
	text := random(8*tree.ChunkSize, 2)
	write := func() []tree.Part {
		if _, err := b.tree.WriteFile(b.Context(), "/f", bytes.NewReader(text), tree.File{}); err != nil {
			b.Fatal(err)
		}
		e, err := b.tree.Entry(b.Context(), "/f")
		if err != nil {
			b.Fatal(err)
		}
		return e.Parts
	}
	before := write()
	text[5*tree.ChunkSize+7]++
	for i, p := range write() {
		if (p != before[i]) != (i == 5) {
			b.Errorf("part %d", i)
		}
	}
	text = text[:2*tree.ChunkSize+1]
	if parts := write(); len(parts) != 3 || parts[1] != before[1] {
		b.Error(parts)
	}
}

// A reader stays with the version it has opened, and keeps it from being collected.
func openVersion(b *bench) {
	b.run("write /f first")
	r, err := b.tree.Open(b.Context(), "/f")
	if err != nil {
		b.Fatal(err)
	}
	b.run("write /f second\nrm /f")
	for range 3 {
		b.clock.advance(3 * time.Hour)
		if _, err := b.forest.Collect(b.Context(), tree.Policy{Grace: -1}); err != nil {
			b.Fatal(err)
		}
	}
	var out bytes.Buffer
	if n, err := r.WriteTo(b.Context(), &out); err != nil || n != 5 || out.String() != "first" {
		b.Errorf("%q, %d, %v", out.String(), n, err)
	}
	if held := must(b.forest.Held(b.Context(), []tree.Hash{tree.Sum([]byte("first")), tree.Sum([]byte("second"))})); !held[0] || held[1] {
		b.Errorf("held: %v", held)
	}
	r.Close()
	r.Close()
	if _, err := r.WriteTo(b.Context(), &out); !errors.Is(err, tree.ErrClosed) {
		b.Error(err)
	}
	b.clock.advance(3 * time.Hour)
	done, err := b.forest.Collect(b.Context(), tree.Policy{Grace: -1})
	if err != nil || done.Chunks != 1 {
		b.Error(done, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func badChunks(b *bench) {
	for name, d := range map[string]tree.Data{
		"another hash": {Hash: tree.Sum([]byte("x")), Bytes: []byte("y")},
		"empty":        {Hash: tree.Sum(nil)},
		"too long":     {Hash: tree.Sum(make([]byte, tree.ChunkSize+1)), Bytes: make([]byte, tree.ChunkSize+1)},
	} {
		good := tree.Data{Hash: tree.Sum([]byte("good")), Bytes: []byte("good")}
		if n, err := b.forest.PutChunks(b.Context(), good, d); code(err) != "EINVAL" || n != 0 {
			b.Errorf("%s: %d, %v", name, n, err)
		}
		_, err := b.tree.Update(b.Context(), func(e *tree.Edit) error { return e.PutChunks(good, d) })
		if code(err) != "EINVAL" {
			b.Errorf("%s: %v", name, err)
		}
		if held := must(b.forest.Held(b.Context(), []tree.Hash{good.Hash, d.Hash})); held[0] || held[1] {
			b.Errorf("%s: held %v", name, held)
		}
	}
	good := tree.Data{Hash: tree.Sum([]byte("good")), Bytes: []byte("good")}
	_, err := b.tree.Update(b.Context(), func(e *tree.Edit) error {
		if err := e.PutChunks(good); err != nil {
			return err
		}
		return e.PutFile("/f", tree.File{Parts: []tree.Part{{Hash: good.Hash, Size: 4}}})
	})
	if err != nil {
		b.Error(err)
	}
	_, err = b.forest.Chunk(b.Context(), tree.Hash{1}, nil)
	if m, ok := errors.AsType[*tree.MissingError](err); !ok || m.Hash != (tree.Hash{1}) || code(err) != "EUNKNOWN_HASH" {
		b.Error(err)
	}
	got := map[tree.Hash][]byte{}
	if err := b.forest.Chunks(b.Context(), []tree.Hash{{1}, good.Hash, {2}}, got); err != nil || len(got) != 1 || string(got[good.Hash]) != "good" {
		b.Errorf("%q, %v", got, err)
	}
}

// An entry that cannot be applied changes nothing, what is in its way least of all.
func badParts(b *bench) {
	b.run("write /d/x 1")
	one := b.stage("one")[0]
	for name, tt := range map[string]struct {
		entry tree.Entry
		want  string
	}{
		"unknown":        {tree.Entry{Size: 3, Parts: []tree.Part{{Hash: tree.Hash{1}, Size: 3}}}, "EUNKNOWN_HASH"},
		"other size":     {tree.Entry{Size: 4, Parts: []tree.Part{{Hash: one.Hash, Size: 4}}}, "EINVAL"},
		"other sum":      {tree.Entry{Size: 4, Parts: []tree.Part{one}}, "EINVAL"},
		"short window":   {tree.Entry{Size: 6, Parts: []tree.Part{one, one}}, "EINVAL"},
		"empty chunk":    {tree.Entry{Parts: []tree.Part{{Hash: one.Hash}}}, "EINVAL"},
		"negative":       {tree.Entry{Size: -1, Parts: []tree.Part{{Hash: one.Hash, Size: -1}}}, "EINVAL"},
		"size, no parts": {tree.Entry{Size: 1}, "EINVAL"},
	} {
		tt.entry.Kind, tt.entry.Path = tree.KindFile, "/d"
		_, err := b.tree.Update(b.Context(), func(e *tree.Edit) error { _, err := e.Apply(&tt.entry, 0); return err })
		if code(err) != tt.want {
			b.Errorf("%s: %v", name, err)
		}
	}
	if got := b.listing(); got != "d /d 755\nf /d/x 644 1\n" {
		b.Error(got)
	}
}

func failingReader(b *bench) {
	b.run("write /f old")
	bad := errors.New("bad")
	r := io.MultiReader(bytes.NewReader(random(2*tree.ChunkSize, 3)), iotest.ErrReader(bad))
	if _, err := b.tree.WriteFile(b.Context(), "/f", r, tree.File{}); !errors.Is(err, bad) {
		b.Error(err)
	}
	if got := b.listing(); got != "f /f 644 old\n" {
		b.Error(got)
	}
}

func reading(b *bench) {
	want := random(2*tree.ChunkSize+100, 4)
	if _, err := b.tree.WriteFile(b.Context(), "/f", bytes.NewReader(want), tree.File{MIME: "a/b", Mode: 0o600, SetMode: true}); err != nil {
		b.Fatal(err)
	}
	b.run("mkdir /d\nsymlink f /l")
	r, err := b.tree.Open(b.Context(), "/l")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	if i := r.Info; i.Path != "/f" || i.MIME != "a/b" || i.Mode != 0o600 || i.Size != int64(len(want)) || i.Name() != "f" {
		b.Error(i)
	}
	for _, tt := range []struct{ offset, length, want int }{
		{0, 10, 10},
		{tree.ChunkSize - 5, 10, 10},
		{tree.ChunkSize, tree.ChunkSize + 50, tree.ChunkSize + 50},
		{len(want) - 5, 10, 5},
		{len(want), 1, 0},
		{len(want) + 1000, 1, 0},
		{3, 0, 0},
	} {
		p := make([]byte, tt.length)
		n, err := r.ReadAt(b.Context(), p, int64(tt.offset))
		if n != tt.want || (err != nil) != (n < tt.length) || n > 0 && !bytes.Equal(p[:n], want[tt.offset:tt.offset+n]) {
			b.Errorf("%d bytes from %d: %d, %v", tt.length, tt.offset, n, err)
		}
	}
	if _, err := r.ReadAt(b.Context(), make([]byte, 1), -1); code(err) != "EINVAL" {
		b.Error(err)
	}
	for path, want := range map[string]string{"/d": "EISDIR", "/n": "ENOENT", "/f/x": "ENOTDIR"} {
		if _, err := b.tree.Open(b.Context(), path); code(err) != want {
			b.Errorf("%s: %v", path, err)
		}
	}
	if _, err := b.tree.ReadFile(b.Context(), "/f", int64(len(want))-1); code(err) != "EFBIG" {
		b.Error(err)
	}
	if got, err := b.tree.Readlink(b.Context(), "/l"); got != "f" || err != nil {
		b.Error(got, err)
	}
	if _, err := b.tree.Readlink(b.Context(), "/f"); code(err) != "EINVAL" {
		b.Error(err)
	}
	list, err := b.tree.ReadDir(b.Context(), "/", "d", 1)
	if err != nil || len(list) != 1 || list[0].Path != "/f" || list[0].Rev != 2 {
		b.Error(list, err)
	}
	if _, err := b.tree.ReadDir(b.Context(), "/f", "", 1); code(err) != "ENOTDIR" {
		b.Error(err)
	}
}

// The answer is in the order of the question, and what is held counts as seen.
func held(b *bench) {
	x, y := b.stage("x")[0].Hash, b.stage("y")[0].Hash
	ask := func(want string, hashes ...tree.Hash) {
		b.Helper()
		if got := fmt.Sprint(must(b.forest.Held(b.Context(), hashes))); got != want {
			b.Errorf("held %s, want %s", got, want)
		}
	}
	ask("[true false true true]", x, tree.Hash{1}, y, x)
	ask("[]")
	b.clock.advance(59 * time.Minute)
	ask("[true]", x)
	b.clock.advance(59 * time.Minute)
	if done := must(b.forest.Collect(b.Context(), tree.Policy{Grace: -1})); done.Chunks != 1 {
		b.Error(done)
	}
	ask("[true false]", x, y)
}

func pinned(b *bench) {
	x, y := b.stage("x")[0].Hash, b.stage("y")[0].Hash
	if _, err := b.forest.Pin(b.Context(), []tree.Hash{x, {1}, {2}}); code(err) != "EUNKNOWN_HASH" || !strings.Contains(err.Error(), tree.Hash{1}.String()) {
		b.Error(err)
	}
	unpin := must(b.forest.Pin(b.Context(), []tree.Hash{x, x}))
	again := must(b.forest.Pin(b.Context(), []tree.Hash{x}))
	want := func(chunks int64, held string) {
		b.Helper()
		b.clock.advance(99 * time.Minute)
		done := must(b.forest.Collect(b.Context(), tree.Policy{Grace: -1}))
		if got := fmt.Sprint(must(b.forest.Held(b.Context(), []tree.Hash{x, y}))); done.Chunks != chunks || got != held {
			b.Errorf("collected %d and held %s, want %d and %s", done.Chunks, got, chunks, held)
		}
	}
	want(1, "[true false]") // neither the failed Pin has kept y, nor time run out for x
	unpin()
	unpin()
	want(0, "[true false]")
	again()
	want(1, "[false false]")
}

func collect(t *testing.T, open func(testing.TB) tree.Store) {
	const (
		unseen = 20 * time.Minute
		grace  = 10 * time.Minute
	)
	x := tree.Sum([]byte("x"))
	// Each line: wait some minutes, or do something, or collect and want "chunks marked".
	for name, script := range map[string]string{
		"garbage":                  "stage\nwait 19\nwant 0 0\nwait 2\nwant 0 1\nwant 0 0\nwait 9\nwant 0 0\nwait 2\nwant 1 0\ngone",
		"pushed again":             "stage\nwait 21\nwant 0 1\nstage\nwait 19\nwant 0 0\nwait 2\nwant 0 1\nwait 11\nwant 1 0\ngone",
		"asked for":                "stage\nwait 21\nwant 0 1\nask\nwait 19\nwant 0 0\nwrite\nwait 99\nwant 0 0\nheld",
		"referred to when dead":    "stage\nwait 21\nwant 0 1\nrefer\nwait 99\nwant 0 0\nremove\nwant 0 1\nwait 9\nwant 0 0\nwait 2\nwant 1 0\ngone",
		"file":                     "write\nwait 999\nwant 0 0\nwait 999\nwant 0 0\nheld",
		"two names":                "write\nlink\nremove\nwait 999\nwant 0 0\nwait 999\nwant 0 0\nheld",
		"overwritten":              "write\nwait 999\nother\nwant 0 1\nwait 11\nwant 1 0\ngone",
		"before the least age":     "stage\nwait 14\nnow 0 0\nwait 2\nnow 1 0\ngone",
		"a push sees it or it not": "stage\nwait 99\nnow 1 0\nrefer => EUNKNOWN_HASH\nstage\nrefer\nheld",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, open(t))
			for line := range strings.Lines(script) {
				var n, m int64
				line, fails, _ := strings.Cut(strings.TrimSpace(line), " => ")
				verb, args, _ := strings.Cut(line, " ")
				_, _ = fmt.Sscan(args, &n, &m) // not all have two
				entry := tree.Entry{Kind: tree.KindFile, Path: "/f", Size: 1, Parts: []tree.Part{{Hash: x, Size: 1}}}
				var err error
				switch verb {
				case "wait":
					b.clock.advance(time.Duration(n) * time.Minute)
				case "stage":
					b.stage("x")
				case "ask":
					_, err = b.forest.Held(t.Context(), []tree.Hash{x})
				case "write":
					b.run("write /f x")
				case "other":
					b.run("write /f other")
				case "link":
					b.run("link /f /g")
				case "remove":
					b.run("rm /f")
				case "refer":
					_, err = b.tree.Update(t.Context(), func(e *tree.Edit) error { _, err := e.Apply(&entry, 0); return err })
				case "want", "now":
					p := tree.Policy{Unseen: unseen, Grace: grace}
					if verb == "now" {
						p = tree.Policy{Unseen: 1, Grace: -1}
					}
					var got tree.Collected
					if got, err = b.forest.Collect(t.Context(), p); got != (tree.Collected{Chunks: n, Bytes: n, Marked: m}) {
						t.Fatalf("%s: %+v", line, got)
					}
				case "gone", "held":
					if _, err := b.forest.Chunk(t.Context(), x, nil); (err == nil) != (verb == "held") {
						t.Fatalf("%s: %v", line, err)
					}
				}
				if code(err) != fails {
					t.Fatalf("%s: %v", line, err)
				}
			}
			if n, err := b.forest.Verify(t.Context()); err != nil {
				t.Error(n, err)
			}
		})
	}
	t.Run("bounded", func(t *testing.T) { collectBounded(t, newBench(t, open(t))) })
	t.Run("many", func(t *testing.T) {
		b := newBench(t, open(t))
		var chunks []tree.Data
		for i := range 1200 {
			text := fmt.Appendf(nil, "chunk %d", i)
			chunks = append(chunks, tree.Data{Hash: tree.Sum(text), Bytes: text})
		}
		if n, err := b.forest.PutChunks(t.Context(), chunks...); n != 1200 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := b.forest.PutChunks(t.Context(), chunks...); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		b.clock.advance(2 * time.Hour)
		if got, err := b.forest.Collect(t.Context(), tree.Policy{}); err != nil || got.Marked != 1200 {
			t.Fatal(got, err)
		}
		b.clock.advance(2 * time.Hour)
		if got, err := b.forest.Collect(t.Context(), tree.Policy{}); err != nil || got.Chunks != 1200 {
			t.Fatal(got, err)
		}
	})
}

// Of garbage beyond a bound the oldest goes at once, but nothing that a push under way may
// refer to.
func collectBounded(t *testing.T, b *bench) {
	put := func(name string) tree.Hash {
		t.Helper()
		data := tree.Data{Bytes: bytes.Repeat([]byte(name), 1000)}
		data.Hash = tree.Sum(data.Bytes)
		if _, err := b.forest.PutChunks(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		return data.Hash
	}
	held := func(want string, hashes map[string]tree.Hash) {
		t.Helper()
		got := ""
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			if h, ok := hashes[name]; ok {
				if _, err := b.forest.Chunk(t.Context(), h, nil); err == nil {
					got += name
				}
			}
		}
		if got != want {
			t.Fatalf("%s are held, want %s", got, want)
		}
	}
	collect := func(most int64, want tree.Collected) {
		t.Helper()
		got, err := b.forest.Collect(t.Context(), tree.Policy{MaxBytes: most})
		if err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
	all := map[string]tree.Hash{"a": put("a")}
	b.clock.advance(tree.DefaultUnseen + time.Minute)
	collect(1<<20, tree.Collected{Marked: 1, Waiting: 1000})
	for _, name := range []string{"b", "c", "d"} {
		all[name] = put(name)
		b.clock.advance(time.Minute)
	}
	collect(1000, tree.Collected{Waiting: 1000}) // the others may be wanted
	held("abcd", all)
	b.clock.advance(tree.MinUnseen)
	all["e"] = put("e")
	collect(2500, tree.Collected{Chunks: 2, Bytes: 2000, Waiting: 2000})
	held("cde", all)
	if _, err := b.forest.Held(t.Context(), []tree.Hash{all["c"]}); err != nil {
		t.Fatal(err)
	}
	collect(-1, tree.Collected{Chunks: 1, Bytes: 1000})
	held("ce", all)
	b.clock.advance(tree.MinUnseen + time.Minute)
	collect(-1, tree.Collected{Chunks: 2, Bytes: 2000})
	held("", all)
}

// Writers, readers, pushes and collections at once: each read is of one moment, and no
// content is lost.
func concurrent(t *testing.T, open func(testing.TB) tree.Store) {
	store := open(t)
	f := tree.New(store, tree.Config{})
	tr, err := f.Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	const rounds, writers = 40, 4
	ctx, cancel := context.WithCancel(t.Context())
	var others, all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			// All make the same parents, and each keeps its two files equal.
			for i := range rounds {
				parts, err := f.Stage(ctx, strings.NewReader(fmt.Sprint(w, i)))
				if err != nil {
					t.Error(err)
					return
				}
				_, err = tr.Update(ctx, func(e *tree.Edit) error {
					for _, name := range []string{"a", "b"} {
						if err := e.PutFile(fmt.Sprintf("/p/q/%d/%s", w, name), tree.File{Parts: parts}); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	loop := func(fn func() error) {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := fn(); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	loop(func() error {
		sums := map[string]tree.Hash{}
		err := tr.Walk(ctx, "/", func(i *tree.FileInfo) error {
			if i.Kind == tree.KindFile {
				sums[i.Path] = i.Manifest
			}
			return nil
		})
		for path, sum := range sums {
			if twin := path[:len(path)-1] + "b"; sums[twin] != sum {
				return fmt.Errorf("%s and %s differ", path, twin)
			}
		}
		return err
	})
	loop(func() error {
		_, err := tr.ReadFile(ctx, "/p/q/0/a", 100)
		if code(err) == "ENOENT" {
			err = nil
		}
		return err
	})
	loop(func() error {
		_, err := f.Collect(ctx, tree.Policy{Grace: -1})
		return err
	})
	all.Wait()
	cancel()
	others.Wait()
	if err := f.Check(context.Background()); err != nil {
		t.Error(err)
	}
	info, err := tr.Info(context.Background())
	if err != nil || info.Files != 2*writers || info.Dirs != 3+writers {
		t.Error(info, err)
	}
}
