package tree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

// An object that is mostly unused is written anew; what is in it is found before and after.
func TestHomeCollectRewrites(t *testing.T) {
	b := newHome(t)
	for _, text := range []string{"first", "second", "third"} {
		b.settle("/"+text, text)
		b.update(b.tree, func(e *tree.Edit) error { return e.Secure(tree.Sum([]byte(text))) })
		b.entry(b.other, "/"+text, text, 0)
	}
	b.home.wasted[1], b.home.pack = true, 0
	b.collect()
	if diff := cmp.Diff(map[int64]string{2: "firstsecondthird"}, b.objects()); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(b.home.dropped, []int64{1}) {
		t.Errorf("dropped %v", b.home.dropped)
	}
	clear(b.home.files)
	for _, text := range []string{"first", "second", "third"} {
		b.want(text, true)
	}
}

// What fails as an object is written anew leaves it as it was, and nothing beside it.
func TestHomeCollectRewriteFails(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func(b *homeBench, stop func()) error{
		"sync": func(b *homeBench, _ func()) error { b.home.syncErr = broken; return broken },
		"commit": func(b *homeBench, _ func()) error {
			b.store.fault = func(call string, h tree.Hash) error {
				if call != "PlaceChunk" || h != tree.Sum([]byte("third")) {
					return nil
				}
				return broken
			}
			return broken
		},
		"cancelled": func(b *homeBench, stop func()) error {
			b.store.fault = func(call string, _ tree.Hash) error {
				if call != "PlaceChunk" {
					return nil
				}
				stop()
				return context.Canceled
			}
			return context.Canceled
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHome(t)
			texts := []string{"first", "second", "third"}
			for _, text := range texts {
				b.settle("/"+text, text)
				b.update(b.tree, func(e *tree.Edit) error { return e.Secure(tree.Sum([]byte(text))) })
				b.entry(b.other, "/"+text, text, 0)
			}
			clear(b.home.files)
			b.home.wasted[1], b.home.pack = true, 0
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			want := fail(b, stop)
			if _, err := b.forest.Collect(ctx, tree.Policy{}); !errors.Is(err, want) {
				t.Error(err)
			}
			if diff := cmp.Diff(map[int64]string{1: "firstsecondthird"}, b.objects()); diff != "" {
				t.Error(diff)
			}
			b.store.fault, b.home.syncErr = noFault, nil
			b.collect()
			if diff := cmp.Diff(map[int64]string{3: "firstsecondthird"}, b.objects()); diff != "" {
				t.Error(diff)
			}
			for _, text := range texts {
				b.want(text, true)
			}
		})
	}
}

// Content of so many files that an edit does not look at them is left to them by a collection.
func TestF5CollectLooksAtManyFiles(t *testing.T) {
	b := newHome(t)
	for i := range 1000 {
		b.settle(fmt.Sprint("/f", i), "text")
	}
	parts, _ := cut("text")
	b.update(b.tree, func(e *tree.Edit) error {
		if err := e.Secure(parts[0].Hash); err != nil {
			return err
		}
		drop, err := e.LeaveToFiles(parts, func(string) (bool, error) { return true, nil })
		if len(drop) > 0 {
			t.Errorf("the edit leaves nothing in %v", drop)
		}
		return err
	})
	b.collect()
	if n := len(b.objects()); n > 0 {
		t.Errorf("%d objects are left", n)
	}
	b.want("text", true)
}

// Content whose object is gone is on the disk before its new place is known.
func TestHomePacksAgain(t *testing.T) {
	b := newHome(t)
	_, data := cut("text")
	for range 2 {
		if added, err := b.forest.Pack(t.Context(), data...); added != 1 || err != nil {
			t.Error(added, err)
		}
		b.want("text", true)
		b.home.Drop(b.home.last)
		b.want("text", false)
	}
}

// Where there is no room for all that is left in an object the rest stays there, and the collection
// goes on.
func TestF5RewriteWithoutRoom(t *testing.T) {
	b := newHome(t)
	texts := []string{"first", "second", "third"}
	for _, text := range texts {
		b.settle("/"+text, text)
		b.update(b.tree, func(e *tree.Edit) error { return e.Secure(tree.Sum([]byte(text))) })
		b.entry(b.other, "/"+text, text, 0)
	}
	clear(b.home.files)
	b.home.wasted[1], b.home.pack = true, 0
	packed := 0
	b.home.full = func() bool { packed++; return packed > 2 }
	done, err := b.forest.Collect(t.Context(), tree.Policy{})
	if err != nil || done.Later != 1 || len(b.home.dropped) != 0 {
		t.Errorf("%+v, %v, dropped %v", done, err, b.home.dropped)
	}
	for _, text := range texts {
		b.want(text, true)
	}
	b.home.full = nil
	if done, err = b.forest.Collect(t.Context(), tree.Policy{}); err != nil || done.Later != 0 || !slices.Equal(b.home.dropped, []int64{1}) {
		t.Errorf("%+v, %v, dropped %v", done, err, b.home.dropped)
	}
	for _, text := range texts {
		b.want(text, true)
	}
}

// Nothing is left of a file for which there is no room, also of what was noted of it before, unless
// something refers to some of that.
func TestL1AbandonedFile(t *testing.T) {
	window := func(letter string) string { return string(bytes.Repeat([]byte(letter), tree.ChunkSize)) }
	put := func(s *tree.Stager, text string) error {
		_, data := cut(text)
		return s.Put(t.Context(), data[0])
	}
	for name, c := range map[string]struct {
		used bool
		want []int64
	}{"alone": {false, []int64{1}}, "shared": {true, []int64{1, 2}}} {
		t.Run(name, func(t *testing.T) {
			b := newHome(t)
			s := b.forest.Stager()
			err := errors.Join(put(s, "before"), put(s, window("a")), put(s, window("b")), s.Flush(t.Context()), put(s, window("c")))
			if err != nil {
				t.Fatal(err)
			}
			if c.used {
				b.entry(b.other, "/f", window("b"), 0)
			}
			b.home.full = func() bool { return true }
			if err := put(s, window("d")); !tree.NoRoom(err) {
				t.Errorf("without room: %v", err)
			}
			if err := errors.Join(s.Abandon(t.Context()), s.Close()); err != nil {
				t.Error(err)
			}
			if got := slices.Sorted(maps.Keys(b.home.objects)); !slices.Equal(got, c.want) {
				t.Errorf("objects %v are left", got)
			}
			b.want("before", true)
			b.want(window("a"), c.used)
			b.want(window("b"), c.used)
			b.want(window("c"), false)
		})
	}
}

// What cannot be forgotten of a file for which there is no room stays with its content, which may be
// referred to. On a full disk the content makes room for that.
func TestL1AbandonFails(t *testing.T) {
	a, last := strings.Repeat("a", tree.ChunkSize), strings.Repeat("b", tree.ChunkSize)
	broken := errors.New("broken")
	for _, c := range []struct {
		call string
		text string // that the call is about, "" for none
		err  error
		want []int64 // objects that are dropped
	}{
		{"ChunksIn", "", broken, nil},
		{"Referenced", last, broken, nil},
		{"DeleteChunk", last, broken, nil},
		{"commit", "", broken, nil},
		{"ChunksIn", "", syscall.ENOSPC, nil},
		{"Referenced", last, syscall.ENOSPC, nil},
		{"DeleteChunk", last, syscall.ENOSPC, []int64{1}},
		{"commit", "", syscall.ENOSPC, []int64{1}},
	} {
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprint(c.call, " ", c.err, " ", used), func(t *testing.T) {
				b := newHome(t)
				s := b.forest.Stager()
				_, data := cut(a + last)
				for _, d := range data {
					if err := s.Put(t.Context(), d); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if used {
					b.entry(b.other, "/f", last, 0)
				}
				hit := 0
				b.store.fault = func(call string, h tree.Hash) error {
					full := tree.NoRoom(c.err) && len(b.home.dropped) > 0
					if call != c.call || full || c.text != "" && h != tree.Sum([]byte(c.text)) {
						return nil
					}
					hit++
					return c.err
				}
				err := s.Abandon(t.Context())
				b.store.fault = noFault
				if failed := hit > 0 && len(b.home.dropped) == 0; errors.Is(err, c.err) != failed {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				want := c.want
				if used {
					want = nil
				}
				if !slices.Equal(b.home.dropped, want) {
					t.Errorf("objects %v were dropped", b.home.dropped)
				}
				b.want(a+last, len(want) == 0)
				if err := b.forest.Check(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
