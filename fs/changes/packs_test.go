package changes_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/changes/pack"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

func packQuery(entries int, size int64) changes.PackQuery {
	return changes.PackQuery{MaxEntries: entries, MaxBytes: size, Generation: "g1"}
}

// Which entries come into a pack.
func TestPackBlocks(t *testing.T) {
	e := newEnd(t)
	e.mustPush(7)
	e.do("write /a aaaa\nwrite /b bbbb\nwrite /c aaaa\nwrite /e cccccccc\nrm /b") // at 2 to 6; /b has the last
	for name, tt := range map[string]struct {
		entries int
		size    int64
		want    int
		cursor  tree.Cursor
		drained bool
	}{
		"all":                         {20_000, 100 << 20, 4, tree.At(6), true},
		"exactly all":                 {4, 12, 4, tree.At(6), true},
		"by number":                   {3, 100, 3, tree.AtPath(5, "/e"), false},
		"by bytes":                    {9, 11, 2, tree.AtPath(4, "/c"), false}, // of /c nothing is new
		"the first always":            {9, 1, 1, tree.AtPath(2, "/a"), false},
		"none asked for":              {0, 0, 1, tree.AtPath(2, "/a"), false},
		"less than none":              {-1, -1, 1, tree.AtPath(2, "/a"), false},
		"more than anybody may":       {1 << 40, 1 << 60, 4, tree.At(6), true},
		"what costs nothing is taken": {9, 12, 4, tree.At(6), true},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := e.FetchChangePack(t.Context(), packQuery(tt.entries, tt.size))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Pieces.Close(nil)
			if p.Entries != tt.want || p.Cursor != tt.cursor || p.Drained != tt.drained || p.AppliedPush != tree.At(7) {
				t.Errorf("%+v", p)
			}
			other := newEnd(t)
			out, err := other.ApplyChangePack(t.Context(), "g1", p.Pieces)
			if want := (changes.PackResult{AppliedPushCursor: tt.cursor, Applied: out.Applied, Entries: tt.want}); err != nil || out != want {
				t.Errorf("%+v, %v", out, err)
			}
			if tt.drained && !cmp.Equal(e.all(), other.all()) {
				t.Error(cmp.Diff(e.all(), other.all()))
			}
		})
	}
	// Nothing to pack is a pack too, and moves the cursor.
	q := packQuery(10, 10)
	q.After = tree.At(6)
	p, err := e.FetchChangePack(t.Context(), q)
	if err != nil || p.Entries != 0 || !p.Drained || p.Cursor != tree.At(6) {
		t.Fatalf("%+v, %v", p, err)
	}
	other := newEnd(t)
	if out, err := other.ApplyChangePack(t.Context(), "g1", p.Pieces); err != nil || out.AppliedPushCursor != tree.At(6) || other.marks().Fetch != tree.At(6) {
		t.Errorf("%+v, %v", out, err)
	}
}

// The pack of a tree with the specification's vector is that vector.
func TestPackIsTheVector(t *testing.T) {
	e := newEnd(t)
	e.keep("alpha")
	d, f := dirEntry(0, "/d", 0o755), fileEntry(0, "/d/a", 0o644, "alpha")
	d.MTime, f.MTime = time.UnixMilli(1000), time.UnixMilli(2000)
	e.mustPush(0, d, f)
	p, err := e.FetchChangePack(t.Context(), packQuery(10, 100))
	if err != nil {
		t.Fatal(err)
	}
	dec := pack.NewDecoder(bytes.NewReader(raw(t, p.Pieces)), "g1")
	var last pack.Record
	for range 4 {
		if last, err = dec.Next(); err != nil {
			t.Fatal(err)
		}
	}
	want := &pack.Footer{
		Version: 1, Generation: "g1", BlockCursor: protocol.Cursor{Rev: 3}, Target: protocol.Cursor{Rev: 3},
		EntryCount: 2, ObjectCount: 1, ObjectBytes: 5, Digest: "32d4c04c",
	}
	if diff := cmp.Diff(want, last.Footer); diff != "" {
		t.Error(diff)
	}
}

func TestPackOfLargeFiles(t *testing.T) {
	e, other := newEnd(t), newEnd(t)
	var b strings.Builder // text that does not compress to nothing
	for i := 0; b.Len() < 5*tree.ChunkSize; i++ {
		fmt.Fprintf(&b, "%s", tree.Sum([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	big := b.String()
	e.keep(big)
	e.mustPush(0, fileEntry(0, "/big", 0o644, big), fileEntry(0, "/same", 0o644, big), fileEntry(0, "/part", 0o644, big[:tree.ChunkSize]), fileEntry(0, "/empty", 0o600, ""))
	p, err := e.FetchChangePack(t.Context(), packQuery(100, 100<<20))
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := changes.Collect(t.Context(), p.Pieces)
	if err != nil || len(pieces) < 2 {
		t.Fatalf("%d pieces, %v", len(pieces), err)
	}
	for i, piece := range pieces {
		if len(piece) > pack.MaxPiece || len(piece) < pack.MaxPiece && i < len(pieces)-1 {
			t.Errorf("piece %d has %d bytes", i, len(piece))
		}
	}
	if n := len(bytes.Join(pieces, nil)); n > 6*tree.ChunkSize {
		t.Errorf("%d bytes: something was packed twice", n)
	}
	// However it is cut up on the way.
	if _, err := other.ApplyChangePack(t.Context(), "g1", inPieces(bytes.Join(pieces, nil), 1009)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.all(), other.all()); diff != "" {
		t.Error(diff)
	}
}

// A pack that is wrong somewhere changes nothing, and moves no cursor.
func TestBadPacks(t *testing.T) {
	e := newEnd(t)
	e.do("write /a 1\nwrite /b 2")
	good := func() []byte {
		p, err := e.FetchChangePack(t.Context(), packQuery(10, 100))
		if err != nil {
			t.Fatal(err)
		}
		return raw(t, p.Pieces)
	}()
	make := func(fn func(*pack.Encoder) error) []byte {
		var buf bytes.Buffer
		if err := fn(pack.NewEncoder(&buf, "g1")); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	at3 := pack.Footer{BlockCursor: protocol.Cursor{Rev: 3}}
	entry := func(e tree.Entry) *protocol.ChangeEntry { return changes.EntryToWire(&e) }
	high := int64(1) << 60
	for name, tt := range map[string]struct {
		generation, code string
		pack             []byte
	}{
		"another generation": {"g2", "EPACK_PROTOCOL", good},
		"cut off":            {"g1", "EPACK_PROTOCOL", good[:len(good)-9]},
		"nothing":            {"g1", "EPACK_PROTOCOL", nil},
		"no pack":            {"g1", "EPACK_PROTOCOL", []byte("what is this")},
		"more behind it":     {"g1", "EPACK_PROTOCOL", append(bytes.Clone(good), good...)},
		"a lying object": {"g1", "EPACK_PROTOCOL", make(func(p *pack.Encoder) error {
			return errors.Join(p.Object(tree.Data{Hash: tree.Hash{1}, Bytes: []byte("x")}), p.Entry(entry(dirEntry(3, "/d", 0o755))), p.Close(at3))
		})},
		"entries without cursor": {"g1", "EPACK_PROTOCOL", make(func(p *pack.Encoder) error {
			return errors.Join(p.Entry(entry(dirEntry(3, "/d", 0o755))), p.Close(pack.Footer{}))
		})},
		"a cursor beyond all": {"g1", "EPACK_PROTOCOL", make(func(p *pack.Encoder) error {
			return errors.Join(p.Entry(entry(dirEntry(3, "/d", 0o755))), p.Close(pack.Footer{BlockCursor: protocol.Cursor{Rev: high}}))
		})},
		"a missing object": {"g1", "EUNKNOWN_HASH", make(func(p *pack.Encoder) error {
			return errors.Join(p.Entry(entry(dirEntry(2, "/d", 0o755))), p.Entry(entry(fileEntry(3, "/f", 0o644, "not here"))), p.Close(at3))
		})},
		"a path that escapes": {"g1", "EINVAL", make(func(p *pack.Encoder) error {
			return errors.Join(p.Entry(entry(dirEntry(2, "/d", 0o755))), p.Entry(entry(gone(3, "/d/../../x"))), p.Close(at3))
		})},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t)
			_, err := e.ApplyChangePack(t.Context(), tt.generation, inPieces(tt.pack, 100))
			if changes.Code(err) != tt.code || tt.code == "EPACK_PROTOCOL" && changes.Name(err) != "PackProtocolError" {
				t.Errorf("%s, %s: %v", changes.Code(err), changes.Name(err), err)
			}
			if e.paths() != "" || e.marks() != (marks{CurrentRev: 1}) {
				t.Errorf("%s, %+v", e.paths(), e.marks())
			}
			if _, err := e.ApplyChangePack(t.Context(), "g1", inPieces(good, 100)); err != nil || e.paths() != "/a /b" {
				t.Errorf("the right one: %v, %s", err, e.paths())
			}
		})
	}
	// An error of the stream is itself.
	if _, err := newEnd(t).ApplyChangePack(t.Context(), "g1", failing(errCut, good[:20])); !errors.Is(err, errCut) || changes.Code(err) != "" {
		t.Error(err)
	}
	if _, err := e.FetchChangePack(t.Context(), changes.PackQuery{Generation: strings.Repeat("g", 257)}); changes.Code(err) != "EPROTOCOL" {
		t.Error(err)
	}
}

// A pack that is only asked about costs no more than its entries, and lets go of all.
func TestPackProbe(t *testing.T) {
	e := endOn(t, tree.NewMemory(), changes.Config{SpoolDir: t.TempDir(), MaxSpooledBytes: 4096})
	e.do("write /f old")
	old := object("old").Hash
	for range 1000 { // more than there would be room for if they were kept
		p, err := e.FetchChangePack(t.Context(), packQuery(20_000, 100<<20))
		if err != nil {
			t.Fatal(err)
		}
		p.Pieces.Close(nil)
		p.Pieces.Close(nil)
		if _, err := p.Pieces.Next(t.Context()); err == nil {
			t.Fatal("a closed stream gave a piece")
		}
	}
	p, err := e.FetchChangePack(t.Context(), packQuery(20_000, 100<<20))
	if err != nil {
		t.Fatal(err)
	}
	e.do("write /f new")
	collect := func() {
		e.now = e.now.Add(3 * time.Hour)
		if _, err := e.forest.Collect(t.Context(), tree.Policy{Grace: -1}); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	// What was planned is what comes, although the file has changed.
	other := newEnd(t)
	if _, err := other.ApplyChangePack(t.Context(), "g1", p.Pieces); err != nil || other.text("/f") != "old" {
		t.Error(err)
	}
	collect()
	if got, err := e.HasObjects(t.Context(), []tree.Hash{old}); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
}

// A reader that gives up in the middle leaves nothing behind either.
func TestPackGivenUp(t *testing.T) {
	e := newEnd(t)
	var b strings.Builder
	for i := 0; b.Len() < 6*tree.ChunkSize; i++ {
		fmt.Fprintf(&b, "%s", tree.Sum([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	e.keep(b.String())
	e.mustPush(0, fileEntry(0, "/big", 0o644, b.String()))
	p, err := e.FetchChangePack(t.Context(), packQuery(10, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Pieces.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Pieces.Close(errCut)
	if _, err := p.Pieces.Next(t.Context()); err == nil {
		t.Error("a closed stream gave a piece")
	}
}
