package computer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
	"github.com/wsd-dev/wsd/server"
)

// received is what comes out of a stream of entries.
func received(t *testing.T, s capnweb.Stream[wire.Entry]) []tree.Entry {
	t.Helper()
	var out []tree.Entry
	for e, err := range s.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		entry, err := e.Tree()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, entry)
	}
	return out
}

func TestFetchChanges(t *testing.T) {
	w := newWorld(t)
	s := w.session(t)
	offers := listOf(someOne...)
	w.peer.offers = offers
	var got wire.FetchResult
	if err := s.Main().Call(t.Context(), &got, "sync.fetchChanges", map[string]any{"after": changes.CursorToWire(tree.AtPath(4, "/a"))}); err != nil {
		t.Fatal(err)
	}
	if cursorOf(got.CurrentCursor) != tree.At(12) || cursorOf(got.AppliedPushCursor) != tree.AtPath(3, "/x") {
		t.Errorf("cursors are %+v", got)
	}
	if diff := cmp.Diff(someOne, received(t, got.Stream)); diff != "" {
		t.Error(diff)
	}
	<-offers.ended
	if diff := cmp.Diff([]error{nil}, offers.closed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]changes.FetchQuery{{After: tree.AtPath(4, "/a"), Ignore: []string{}}}, w.peer.queries); diff != "" {
		t.Error(diff)
	}
}

// What a query leaves out is not what it says is empty.
func TestFetchQueries(t *testing.T) {
	through := tree.At(9)
	for _, c := range []struct {
		in   any
		want changes.FetchQuery
	}{
		{nil, changes.FetchQuery{Ignore: []string{}}},
		{capnweb.Undefined{}, changes.FetchQuery{Ignore: []string{}}},
		{capnweb.Object{{Name: "after", Value: capnweb.Undefined{}}, {Name: "through", Value: nil}, {Name: "ignore", Value: capnweb.Undefined{}}}, changes.FetchQuery{Ignore: []string{}}},
		{map[string]any{"ignore": []string{}}, changes.FetchQuery{Ignore: []string{}}},
		{map[string]any{"ignore": []string{"build"}, "through": changes.CursorToWire(through)}, changes.FetchQuery{Ignore: []string{"build"}, Through: &through}},
		{map[string]any{"after": changes.CursorToWire(tree.AtPath(0, ""))}, changes.FetchQuery{After: tree.AtPath(0, ""), Ignore: []string{}}},
	} {
		w := newWorld(t)
		w.peer.offers = listOf[tree.Entry]()
		var got wire.FetchResult
		if err := w.session(t).Main().Call(t.Context(), &got, "sync.fetchChanges", c.in); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]changes.FetchQuery{c.want}, w.peer.queries); diff != "" {
			t.Errorf("%v: %s", c.in, diff)
		}
	}
}

// A client that does not say what it wants hidden is a seed client on /ws, which expects
// node_modules to be hidden, and a later one on /api, which expects all.
func TestF11HiddenNamesFollowThePath(t *testing.T) {
	for _, c := range []struct {
		path     string
		hidden   []string
		argument string
		want     []string
	}{
		{"/ws", nil, `{}`, []string{"node_modules"}},
		{"/api", nil, `{}`, []string{}},
		{"/ws", nil, `{"ignore":["undefined"]}`, []string{"node_modules"}},
		{"/ws", nil, `{"ignore":null}`, []string{"node_modules"}},
		{"/ws", nil, `{"ignore":[[]]}`, []string{}},
		{"/api", nil, `{"ignore":[["out"]]}`, []string{"out"}},
		{"/ws", []string{"out"}, `{}`, []string{"out"}},
		{"/api", []string{"out"}, `{}`, []string{"out"}},
		{"/ws", []string{}, `{}`, []string{}},
	} {
		for _, call := range []string{"fetchChanges", "fetchChangePack"} {
			w := newWorld(t, func(cfg *Config, _ *server.HTTPConfig) { cfg.Hidden = c.hidden })
			w.peer.offers = listOf[tree.Entry]()
			w.peer.pack = listOf[[]byte]()
			ask(t, w.socket(t, c.path), `["sync","`+call+`"],[`+c.argument+`]`)
			eventually(t, "it is asked", func() bool { return w.peer.asked() == 1 })
			if diff := cmp.Diff(c.want, w.peer.queries[0].Ignore); diff != "" {
				t.Errorf("%s %s of %s with %q: %s", c.path, call, c.argument, c.hidden, diff)
			}
		}
	}
}

// A consumer that stops early has the stream closed at once, with much of it unread.
func TestFetchIsCancelled(t *testing.T) {
	w := newWorld(t)
	var many []tree.Entry
	for i := range 200_000 {
		many = append(many, tree.Entry{Kind: tree.KindDelete, Rev: int64(i), Path: fmt.Sprintf("/%d", i)})
	}
	offers := listOf(many...)
	w.peer.offers = offers
	s := w.session(t)
	var got wire.FetchResult
	if err := s.Main().Call(t.Context(), &got, "sync.fetchChanges"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := got.Stream.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got.Stream.Cancel(&capnweb.Error{Message: "enough"})
	<-offers.ended
	if offers.left() == 0 {
		t.Error("all of it was taken")
	}
	eventually(t, "the tables are empty", func() bool { return s.Stats() == capnweb.Stats{Imports: 1, Exports: 1} })
}

// A result that is never looked at, and a session that ends, close the stream too.
func TestFetchIsLetGo(t *testing.T) {
	w := newWorld(t)
	unread, cut := listOf(someOne...), listOf(make([]tree.Entry, 100_000)...)
	for i := range cut.items {
		cut.items[i] = someOne[0]
	}
	s := w.session(t)
	w.peer.offers = unread
	stub := s.Main().Start(t.Context(), "sync.fetchChanges")
	if err := stub.Await(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	stub.Release()
	<-unread.ended
	w.peer.offers = cut
	var got wire.FetchResult
	if err := s.Main().Call(t.Context(), &got, "sync.fetchChanges"); err != nil {
		t.Fatal(err)
	}
	if _, err := got.Stream.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	<-cut.ended
}

// An error in the middle of a stream arrives with its code.
func TestFetchBreaks(t *testing.T) {
	w := newWorld(t)
	offers := listOf(someOne[0])
	offers.fail = &tree.MissingError{}
	w.peer.offers = offers
	var got wire.FetchResult
	if err := w.session(t).Main().Call(t.Context(), &got, "sync.fetchChanges"); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil { // what came before it may be read, or not
		_, err = got.Stream.Next(t.Context())
	}
	if capnweb.Code(err) != "EUNKNOWN_HASH" {
		t.Errorf("got %v", err)
	}
	<-offers.ended
}

func TestObjects(t *testing.T) {
	w := newWorld(t)
	s := w.session(t)
	datas := []tree.Data{}
	for i := range 20 {
		b := make([]byte, tree.ChunkSize-i)
		b[0] = byte(i)
		datas = append(datas, tree.Data{Hash: tree.Sum(b), Bytes: b})
	}
	if err := s.Main().Call(t.Context(), nil, "sync.pushObjects", wire.Send(listOf(datas...), wire.ObjectOf)); err != nil {
		t.Fatal(err)
	}
	var hashes []tree.Hash
	for _, d := range datas {
		hashes = append(hashes, d.Hash)
	}
	var objects capnweb.Stream[wire.Object]
	if err := s.Main().Call(t.Context(), &objects, "sync.fetchObjects", wire.HashList(hashes)); err != nil {
		t.Fatal(err)
	}
	got, err := collect(t.Context(), wire.Receive(objects, wire.Object.Tree, nil))
	if err != nil {
		t.Fatal(err)
	}
	same := func(a, b tree.Data) bool { return a.Hash == b.Hash && bytes.Equal(a.Bytes, b.Bytes) }
	if !slices.EqualFunc(datas, got, same) {
		t.Error("the objects differ")
	}
	lie := tree.Data{Hash: tree.Sum(alpha), Bytes: []byte("beta")}
	err = s.Main().Call(t.Context(), nil, "sync.pushObjects", wire.Send(listOf(lie), wire.ObjectOf))
	if capnweb.Code(err) != "EINVAL" {
		t.Errorf("a lie was answered %v", err)
	}
}

func TestPush(t *testing.T) {
	w := newWorld(t)
	s := w.session(t)
	cursor := tree.AtPath(5, "/workspace/l")
	for _, in := range []changes.PushInput{{SenderRev: 3}, {SenderRev: 5, Cursor: &cursor}} {
		var got wire.PushResult
		err := s.Main().Call(t.Context(), &got, "sync.push", wire.PushInputOf(in, wire.Send(listOf(someOne...), wire.EntryOf)))
		if err != nil {
			t.Fatal(err)
		}
		want := tree.At(in.SenderRev)
		if in.Cursor != nil {
			want = *in.Cursor
		}
		if cursorOf(got.AppliedPushCursor) != want || got.Applied != len(someOne) {
			t.Errorf("got %+v", got)
		}
	}
	if diff := cmp.Diff([]changes.PushInput{{SenderRev: 3}, {SenderRev: 5, Cursor: &cursor}}, w.peer.pushes); diff != "" {
		t.Error(diff)
	}
}

// Entries that cannot be fail the push, and so does a stream that breaks, with its error.
func TestBadPushes(t *testing.T) {
	w := newWorld(t)
	s := w.session(t)
	for name, entry := range map[string]any{
		"a kind that is none": map[string]any{"kind": "pipe", "rev": 1, "path": "/p"},
		"no kind":             map[string]any{"rev": 1, "path": "/p"},
		"no time":             map[string]any{"kind": "dir", "rev": 1, "path": "/p", "mtime": 1e300},
		"a hash of a byte":    map[string]any{"kind": "file", "rev": 1, "path": "/p", "size": 1, "mode": 1, "mtime": 1, "chunks": []any{map[string]any{"hash": []byte{1}, "size": 1}}},
		"no object":           5,
	} {
		in := map[string]any{"senderRev": 1, "changes": capnweb.StreamOf(entry)}
		if err := s.Main().Call(t.Context(), nil, "sync.push", in); capnweb.Code(err) != "EINVAL" {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := listOf(someOne[0])
	broken.fail = &capnweb.Error{Message: "the disk is gone", Code: "EIO"}
	err := s.Main().Call(t.Context(), nil, "sync.push", wire.PushInputOf(changes.PushInput{SenderRev: 1}, wire.Send(broken, wire.EntryOf)))
	if e, ok := errors.AsType[*capnweb.Error](err); !ok || e.Code != "EIO" || e.Message != "the disk is gone" {
		t.Errorf("got %v", err)
	}
	if len(w.peer.pushes) != 0 {
		t.Error("something was pushed")
	}
}

// An item whose value cannot be had fails the push: the rest of it would be taken for all.
func TestF9ItemThatCannotBeHadFailsThePush(t *testing.T) {
	for name, item := range map[string]string{
		"a blob":            `["blob","text/plain",["bytes","aGkK"]]`,
		"a call that fails": `["pipeline",0,["nosuch"],[]]`,
		"part of an entry":  `{"kind":"dir","rev":1,"path":"/p","mode":493,"mtime":["pipeline",0,["nosuch"],[]]}`,
	} {
		for _, first := range []bool{true, false} {
			w := newWorld(t)
			ws := w.socket(t, "/ws")
			frames := []string{`["stream",["pipeline",1,["write"],[` + item + `]]]`, `["stream",["pipeline",1,["write"],[` + wireEntries[0] + `]]]`}
			if !first {
				frames[0], frames[1] = frames[1], frames[0]
			}
			say(t, ws, `["pipe"]`, `["push",["pipeline",0,["sync","push"],[{"senderRev":3,"changes":["readable",1]}]]]`, `["pull",2]`)
			say(t, ws, frames...)
			say(t, ws, `["stream",["pipeline",1,["close"],[]]]`)
			for {
				got := hear(t, ws)
				if strings.HasPrefix(got, `["resolve",2,`) {
					t.Errorf("%s: %s", name, got)
				}
				if strings.HasPrefix(got, `["resolve",2,`) || strings.HasPrefix(got, `["reject",2,`) {
					break
				}
			}
			if len(w.peer.pushes) != 0 {
				t.Errorf("%s: something was pushed", name)
			}
		}
	}
}

func TestPacks(t *testing.T) {
	w := newWorld(t)
	s := w.session(t)
	pack := listOf([]byte("one"), []byte("two"))
	w.peer.pack = pack
	q := changes.PackQuery{FetchQuery: changes.FetchQuery{After: tree.At(2), Ignore: []string{"x"}}, MaxEntries: 20_000, MaxBytes: 100 << 20, Generation: "g1"}
	var got wire.PackResult
	if err := s.Main().Call(t.Context(), &got, "sync.fetchChangePack", wire.PackQueryOf(q)); err != nil {
		t.Fatal(err)
	}
	if cursorOf(got.Cursor) != tree.AtPath(9, "g1") || !got.Drained || got.EntryCount != 100<<20 || cursorOf(got.AppliedPushCursor) != tree.At(4) {
		t.Errorf("got %+v", got)
	}
	b, err := io.ReadAll(capnweb.NewReader(t.Context(), got.Stream))
	if err != nil || string(b) != "onetwo" {
		t.Errorf("%q, %v", b, err)
	}
	<-pack.ended
	if diff := cmp.Diff([]changes.FetchQuery{q.FetchQuery}, w.peer.queries); diff != "" {
		t.Error(diff)
	}
	var applied protocol.ApplyChangePackResult
	in := wire.ApplyInput{Generation: "g2", Stream: capnweb.StreamOf([]byte("three"), []byte("four"))}
	if err := s.Main().Call(t.Context(), &applied, "sync.applyChangePack", in); err != nil {
		t.Fatal(err)
	}
	if cursorOf(applied.AppliedPushCursor) != tree.AtPath(5, "g2") || applied.Applied != 2 || applied.EntryCount != 7 || string(w.peer.applied) != "threefour" {
		t.Errorf("got %+v of %q", applied, w.peer.applied)
	}
}

// An error without a code tells nothing of what it is about.
func TestInternalErrors(t *testing.T) {
	w := newWorld(t)
	w.peer.err = errors.New("password 1234")
	err := w.session(t).Main().Call(t.Context(), nil, "sync.watermarks")
	if e, ok := errors.AsType[*capnweb.Error](err); !ok || e.Message != "internal error" {
		t.Errorf("got %v", err)
	}
}

// cursorOf is the cursor that a form stands for, and one that there is none of if that is bad.
func cursorOf(form protocol.Cursor) tree.Cursor {
	c, err := changes.CursorFromWire(form)
	if err != nil {
		return tree.At(-1)
	}
	return c
}
