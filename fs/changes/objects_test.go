package changes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

func object(text string) tree.Data {
	return tree.Data{Hash: tree.Sum([]byte(text)), Bytes: []byte(text)}
}

func TestHasObjects(t *testing.T) {
	e := newEnd(t)
	e.keep("a", "b")
	a, b, c := object("a").Hash, object("b").Hash, object("c").Hash
	for _, tt := range [][2][]tree.Hash{
		{{}, {}},
		{{c}, {}},
		{{b, c, a, b, c, b}, {b, a, b, b}},
	} {
		got, err := e.HasObjects(t.Context(), tt[0])
		if err != nil || !cmp.Equal(got, tt[1]) {
			t.Errorf("of %v: %v, %v", tt[0], got, err)
		}
	}
}

func TestFetchObjects(t *testing.T) {
	e := newEnd(t)
	big := strings.Repeat("B", tree.ChunkSize)
	e.keep("a", big)
	a, b, c := object("a"), object(big), object("c")
	s, err := e.FetchObjects(t.Context(), []tree.Hash{b.Hash, a.Hash, b.Hash})
	if err != nil {
		t.Fatal(err)
	}
	got, err := changes.Collect(t.Context(), s)
	if err != nil || !slices.EqualFunc(got, []tree.Data{b, a, b}, func(x, y tree.Data) bool { return x.Hash == y.Hash && bytes.Equal(x.Bytes, y.Bytes) }) {
		t.Errorf("%d objects, %v", len(got), err)
	}
	// One that is not held fails the call, wherever it is in the list.
	_, err = e.FetchObjects(t.Context(), []tree.Hash{a.Hash, b.Hash, c.Hash})
	if changes.Code(err) != "EUNKNOWN_HASH" || changes.Name(err) != "WorkspaceFsError" || !strings.Contains(err.Error(), c.Hash.String()) {
		t.Error(err)
	}
	if s, err = e.FetchObjects(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// What was offered stays as long as it is being fetched, whatever becomes of the file and
// however long that takes, and goes afterwards.
func TestFetchedObjectsStay(t *testing.T) {
	e := newEnd(t)
	e.do("write /f old")
	old := object("old").Hash
	s, err := e.FetchObjects(t.Context(), []tree.Hash{old})
	if err != nil {
		t.Fatal(err)
	}
	e.do("write /f new")
	collect := func() {
		t.Helper()
		e.now = e.now.Add(3 * time.Hour)
		if _, err := e.forest.Collect(t.Context(), tree.Policy{Grace: -1}); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	if d, err := s.Next(t.Context()); err != nil || string(d.Bytes) != "old" {
		t.Errorf("%q, %v", d.Bytes, err)
	}
	s.Close(nil)
	collect()
	if got, err := e.HasObjects(t.Context(), []tree.Hash{old}); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
}

func TestPushObjects(t *testing.T) {
	e := newEnd(t)
	var all []tree.Data
	var hashes []tree.Hash
	for i := range 500 {
		all = append(all, object(fmt.Sprint(i)))
		hashes = append(hashes, all[i].Hash)
	}
	all = append(all, object(strings.Repeat("x", tree.ChunkSize)), all[3])
	if err := e.PushObjects(t.Context(), changes.FromSlice(all)); err != nil {
		t.Fatal(err)
	}
	if err := e.PushObjects(t.Context(), changes.FromSlice(all)); err != nil {
		t.Fatal(err)
	}
	if got, err := e.HasObjects(t.Context(), hashes); err != nil || !cmp.Equal(got, hashes) {
		t.Error(len(got), err)
	}
	if err := e.PushObjects(t.Context(), changes.FromSlice[tree.Data](nil)); err != nil {
		t.Error(err)
	}
}

func TestPushBadObjects(t *testing.T) {
	lie := tree.Data{Hash: object("a").Hash, Bytes: []byte("b")}
	long := bytes.Repeat([]byte("x"), tree.ChunkSize+1)
	for name, bad := range map[string]tree.Data{
		"another hash": lie,
		"too long":     {Hash: tree.Sum(long), Bytes: long},
		"empty":        {Hash: tree.Sum(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t)
			good, after := object("good"), object("after")
			err := e.PushObjects(t.Context(), changes.FromSlice([]tree.Data{good, bad, after}))
			if changes.Code(err) != "EINVAL" {
				t.Error(err)
			}
			// What came before is kept; what was lied about is not there under either name.
			got, err := e.HasObjects(t.Context(), []tree.Hash{good.Hash, bad.Hash, tree.Sum(bad.Bytes), after.Hash})
			if err != nil || !cmp.Equal(got, []tree.Hash{good.Hash}) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestPushObjectsBrokenStream(t *testing.T) {
	e := newEnd(t)
	a, b := object("a"), object("b")
	if err := e.PushObjects(t.Context(), failing(errCut, a, b)); !errors.Is(err, errCut) {
		t.Error(err)
	}
	if got, err := e.HasObjects(t.Context(), []tree.Hash{a.Hash, b.Hash}); err != nil || len(got) != 2 {
		t.Error(got, err)
	}
}

// An object can be asked for as soon as it was given, while the stream goes on.
func TestPushedObjectsAreThereAtOnce(t *testing.T) {
	e := newEnd(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	one, next := object("one"), make(chan struct{})
	given := false
	s := changes.FromFunc(func(ctx context.Context) (d tree.Data, err error) {
		if !given {
			given = true
			return one, nil
		}
		close(next)
		<-ctx.Done()
		return d, context.Cause(ctx)
	}, nil)
	done := make(chan error)
	go func() { done <- e.PushObjects(ctx, s) }()
	<-next
	for { // it is being written
		got, err := e.HasObjects(t.Context(), []tree.Hash{one.Hash})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 1 {
			break
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// 100,000 hashes in one call are refused, with the stated code; 65,536 are not.
func TestTooManyHashes(t *testing.T) {
	e := newEnd(t)
	many := make([]tree.Hash, 100_000)
	if _, err := e.HasObjects(t.Context(), many); changes.Code(err) != "EPROTOCOL" || changes.Name(err) != "Error" {
		t.Error(err)
	}
	if _, err := e.FetchObjects(t.Context(), many); changes.Code(err) != "EPROTOCOL" {
		t.Error(err)
	}
	if got, err := e.HasObjects(t.Context(), many[:changes.MaxHashes]); err != nil || len(got) != 0 {
		t.Error(len(got), err)
	}
	e.keep("a")
	for i := range many {
		many[i] = object("a").Hash
	}
	s, err := e.FetchObjects(t.Context(), many[:changes.MaxHashes])
	if err != nil {
		t.Fatal(err)
	}
	s.Close(nil)
}

// A stream of objects that never ends is given up.
func TestEndlessObjects(t *testing.T) {
	e := newEnd(t)
	n := 0
	endless := changes.FromFunc(func(context.Context) (tree.Data, error) {
		n++
		return object("the same again"), nil
	}, nil)
	if err := e.PushObjects(t.Context(), endless); changes.Code(err) != "EPROTOCOL" {
		t.Error(err)
	}
	if n != changes.MaxHashes+1 {
		t.Errorf("%d were taken", n)
	}
}
