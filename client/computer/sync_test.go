package computer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A content is a file's bytes as a peer moves them.
func content(b []byte) (datas []tree.Data, parts []tree.Part) {
	for len(b) > 0 {
		n := min(len(b), tree.ChunkSize)
		d := tree.Data{Hash: tree.Sum(b[:n]), Bytes: b[:n]}
		datas, parts, b = append(datas, d), append(parts, tree.Part{Hash: d.Hash, Size: int64(n)}), b[n:]
	}
	return datas, parts
}

var (
	big     = bytes.Repeat([]byte("0123456789abcdef"), (2*tree.ChunkSize+4096)/16)
	mtime   = time.UnixMilli(1795814700123)
	_, bits = content(big)
	entries = []tree.Entry{
		{Kind: tree.KindDir, Rev: 2, Path: "/workspace", Mode: 0o755, MTime: mtime},
		{Kind: tree.KindFile, Rev: 3, Path: "/workspace/big", Mode: 0o600, MTime: mtime, Size: int64(len(big)), Parts: bits},
		{Kind: tree.KindFile, Rev: 4, Path: "/workspace/empty", Mode: 0o755, MTime: mtime},
		{Kind: tree.KindSymlink, Rev: 5, Path: "/workspace/link", Mode: 0o777, MTime: mtime, Target: "big"},
	}
)

// pushAll pushes content and entries.
func pushAll(t *testing.T, c *Client, rev int64) changes.PushResult {
	t.Helper()
	datas, _ := content(big)
	if err := c.PushObjects(within(t), changes.FromSlice(datas)); err != nil {
		t.Fatal(err)
	}
	r, err := c.Push(within(t), changes.PushInput{SenderRev: rev}, changes.FromSlice(entries))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// plain is an entry but for what the receiver gives it.
func plain(e tree.Entry) tree.Entry {
	e.Rev = 0
	return e
}

// What is pushed is there, and is fetched as it was: entries, and content by its hashes.
func TestRoundTrip(t *testing.T) {
	w := newWorld(t)
	c := w.client(t)
	before, err := c.Watermarks(within(t), true)
	if err != nil {
		t.Fatal(err)
	}
	r := pushAll(t, c, 5)
	if r.Applied != len(entries) || r.AppliedPushCursor != tree.At(5) || r.Rev <= before.CurrentRev {
		t.Errorf("the push gave %+v", r)
	}
	after, err := c.Watermarks(within(t), false)
	if err != nil || after.CurrentRev != r.Rev || after.Fetch != tree.At(5) {
		t.Errorf("the watermarks are %+v, %v", after, err)
	}
	_, parts := content(big)
	missing := tree.Sum([]byte("missing"))
	held, err := c.HasObjects(within(t), []tree.Hash{parts[1].Hash, missing, parts[0].Hash, parts[1].Hash})
	if want := []tree.Hash{parts[1].Hash, parts[0].Hash, parts[1].Hash}; err != nil || !slices.Equal(held, want) {
		t.Errorf("held are %v, %v", held, err)
	}
	f, err := c.FetchChanges(within(t), changes.FetchQuery{After: tree.At(before.CurrentRev), Ignore: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := changes.Collect(within(t), f.Entries)
	if err != nil || f.Current != tree.At(r.Rev) || f.AppliedPush != tree.At(5) {
		t.Errorf("fetched up to %v, with %v, %v", f.Current, f.AppliedPush, err)
	}
	var bare []tree.Entry
	for _, e := range got {
		bare = append(bare, plain(e))
	}
	var want []tree.Entry
	for _, e := range entries {
		want = append(want, plain(e))
	}
	if diff := cmp.Diff(want, bare); diff != "" {
		t.Error(diff)
	}
	objects, err := c.FetchObjects(within(t), []tree.Hash{parts[0].Hash, parts[1].Hash, parts[2].Hash})
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := changes.Collect(within(t), objects)
	if err != nil {
		t.Fatal(err)
	}
	var whole []byte
	for i, d := range pieces {
		if d.Hash != parts[i].Hash {
			t.Errorf("object %d is another one", i)
		}
		whole = append(whole, d.Bytes...)
	}
	if !bytes.Equal(whole, big) {
		t.Error("the content is another one")
	}
	e, err := c.ReadEntry(within(t), "/workspace/link")
	if err != nil || e == nil || e.Target != "big" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := c.ReadEntry(within(t), "/workspace/nothing"); e != nil || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
}

// A pack of one computer applies to another.
func TestPacks(t *testing.T) {
	a, b := newWorld(t).client(t), newWorld(t).client(t)
	pushAll(t, a, 5)
	p, err := a.FetchChangePack(within(t), changes.PackQuery{MaxEntries: 20_000, MaxBytes: 100 << 20, Generation: "g1"})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Drained || p.Entries < len(entries) {
		t.Errorf("the pack is %+v", p)
	}
	r, err := b.ApplyChangePack(within(t), "g1", p.Pieces)
	if err != nil || r.Entries != p.Entries || r.AppliedPushCursor != p.Cursor {
		t.Errorf("%+v, %v", r, err)
	}
	for _, want := range entries {
		e, err := b.ReadEntry(within(t), want.Path)
		if err != nil || e == nil || plain(*e).Size != want.Size || e.Kind != want.Kind {
			t.Errorf("%s is %+v, %v", want.Path, e, err)
		}
	}
	if _, err := b.ApplyChangePack(within(t), "g1", changes.FromSlice([][]byte{[]byte("no pack")})); changes.Code(err) != changes.CodePack {
		t.Errorf("no pack: %v", err)
	}
}

// Errors have the codes that they have at the peer, so that callers can branch on those
// of package tree.
func TestErrors(t *testing.T) {
	c := newWorld(t).client(t)
	missing := []tree.Hash{tree.Sum([]byte("missing"))}
	file := tree.Entry{Kind: tree.KindFile, Rev: 1, Path: "/f", Mode: 0o644, MTime: mtime, Size: 1, Parts: []tree.Part{{Hash: missing[0], Size: 1}}}
	for name, c := range map[string]struct {
		err  error
		code string
		is   error
	}{
		"a bad path":             {second(c.ReadEntry(within(t), "bad")), "EINVAL", iofs.ErrInvalid},
		"an unknown hash":        {second(c.FetchObjects(within(t), missing)), "EUNKNOWN_HASH", tree.ErrUnknownHash},
		"a file without content": {second(c.Push(within(t), changes.PushInput{SenderRev: 1}, changes.FromSlice([]tree.Entry{file}))), "EUNKNOWN_HASH", tree.ErrUnknownHash},
		"a lie":                  {c.PushObjects(within(t), changes.FromSlice([]tree.Data{{Hash: missing[0], Bytes: []byte("other")}})), "EINVAL", iofs.ErrInvalid},
		"too many hashes":        {second(c.HasObjects(within(t), make([]tree.Hash, changes.MaxHashes+1))), "EPROTOCOL", nil},
		"a bad cursor":           {second(c.FetchChanges(within(t), changes.FetchQuery{After: tree.At(-1)})), "EINVAL", iofs.ErrInvalid},
	} {
		if changes.Code(c.err) != c.code || c.is != nil && !errors.Is(c.err, c.is) || errors.Is(c.err, ErrLost) {
			t.Errorf("%s: %v (%s)", name, c.err, changes.Code(c.err))
		}
	}
	if _, err := c.Watermarks(within(t), false); err != nil {
		t.Errorf("the session is not well: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// A stream of ours that breaks is why the push fails, which applies nothing.
func TestBrokenPush(t *testing.T) {
	w := newWorld(t)
	c := w.client(t)
	broken := errors.New("the disk is gone")
	n, closed := 0, 0
	s := changes.FromFunc(func(context.Context) (tree.Entry, error) {
		if n++; n > 1 {
			return tree.Entry{}, broken
		}
		return entries[0], nil
	}, func(error) { closed++ })
	if _, err := c.Push(within(t), changes.PushInput{SenderRev: 5}, s); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if closed != 1 {
		t.Errorf("closed %d times", closed)
	}
	if e, err := c.ReadEntry(within(t), "/workspace"); e != nil || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
}

// A long stream of entries goes both ways, and what is not wanted is not sent.
func TestManyEntries(t *testing.T) {
	w := newWorld(t)
	c := w.client(t)
	var many []tree.Entry
	for i := range 5000 {
		many = append(many, tree.Entry{Kind: tree.KindDir, Rev: int64(i + 1), Path: fmt.Sprintf("/d%04d", i), Mode: 0o755, MTime: mtime})
	}
	if r, err := c.Push(within(t), changes.PushInput{SenderRev: 5000}, changes.FromSlice(many)); err != nil || r.Applied != len(many) {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, most := range []int{len(many), 10} {
		f, err := c.FetchChanges(within(t), changes.FetchQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range most {
			if e, err := f.Entries.Next(within(t)); err != nil || e.Path != many[i].Path {
				t.Fatalf("entry %d is %+v, %v", i, e, err)
			}
		}
		f.Entries.Close(nil)
	}
	if _, err := c.Watermarks(within(t), false); err != nil {
		t.Error(err)
	}
}

// A liar gives cursors that there are none of.
type liar struct {
	changes.Peer
	lie tree.Cursor
}

func (l *liar) Watermarks(context.Context, bool) (changes.Watermarks, error) {
	return changes.Watermarks{Fetch: l.lie}, nil
}

func (l *liar) Push(context.Context, changes.PushInput, changes.Stream[tree.Entry]) (changes.PushResult, error) {
	return changes.PushResult{AppliedPushCursor: l.lie}, nil
}

func (l *liar) FetchChanges(context.Context, changes.FetchQuery) (*changes.Fetch, error) {
	return &changes.Fetch{Current: l.lie, Entries: changes.FromSlice[tree.Entry](nil)}, nil
}

func (l *liar) FetchChangePack(context.Context, changes.PackQuery) (*changes.Pack, error) {
	return &changes.Pack{AppliedPush: l.lie, Pieces: changes.FromSlice[[]byte](nil)}, nil
}

func (l *liar) ApplyChangePack(context.Context, string, changes.Stream[[]byte]) (changes.PackResult, error) {
	return changes.PackResult{AppliedPushCursor: l.lie}, nil
}

// Cursors of a server that cannot be are refused, as on the other wire.
func TestLyingCursors(t *testing.T) {
	for _, lie := range []tree.Cursor{tree.At(-1), tree.AtPath(1, strings.Repeat("x", tree.MaxPath+1))} {
		c := newWorldOf(t, func(p changes.Peer) changes.Peer { return &liar{Peer: p, lie: lie} }).client(t)
		ctx := within(t)
		for name, call := range map[string]func() error{
			"watermarks": func() error { _, err := c.Watermarks(ctx, false); return err },
			"push": func() error {
				_, err := c.Push(ctx, changes.PushInput{}, changes.FromSlice[tree.Entry](nil))
				return err
			},
			"fetch": func() error { _, err := c.FetchChanges(ctx, changes.FetchQuery{}); return err },
			"pack":  func() error { _, err := c.FetchChangePack(ctx, changes.PackQuery{}); return err },
			"apply": func() error { _, err := c.ApplyChangePack(ctx, "g", changes.FromSlice[[]byte](nil)); return err },
		} {
			if err := call(); changes.Code(err) != "EINVAL" {
				t.Errorf("%s, %+.20v: %v", name, lie, err)
			}
		}
	}
}
