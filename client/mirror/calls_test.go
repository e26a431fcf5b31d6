package mirror

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// calls counts the calls of a peer, and the content that moves.
type calls struct {
	changes.Peer
	mu sync.Mutex
	n  numbers
	// asked is how much content the peer was asked about.
	asked int
}

// numbers are those of calls by their names; objects are "out" and "in".
type numbers map[string]int

func (c *calls) count(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = numbers{}
	}
	c.n[name]++
}

// take returns the numbers since the last time.
func (c *calls) take() numbers {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = nil
	return n
}

func (c *calls) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	c.count("watermarks")
	return c.Peer.Watermarks(ctx, settle)
}

func (c *calls) HasObjects(ctx context.Context, hashes []tree.Hash) ([]tree.Hash, error) {
	c.count("hasObjects")
	c.asked += len(hashes)
	return c.Peer.HasObjects(ctx, hashes)
}

func (c *calls) FetchObjects(ctx context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	c.count("fetchObjects")
	s, err := c.Peer.FetchObjects(ctx, hashes)
	if err != nil {
		return nil, err
	}
	return c.counted(s, "in"), nil
}

func (c *calls) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	c.count("pushObjects")
	return c.Peer.PushObjects(ctx, c.counted(objects, "out"))
}

func (c *calls) counted(s changes.Stream[tree.Data], name string) changes.Stream[tree.Data] {
	return changes.Map(s, func(d tree.Data) (tree.Data, error) {
		c.count(name)
		return d, nil
	})
}

func (c *calls) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	c.count("push")
	return c.Peer.Push(ctx, in, entries)
}

func (c *calls) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	c.count("fetchChanges")
	return c.Peer.FetchChanges(ctx, q)
}

func (c *calls) ReadEntry(ctx context.Context, path string) (*tree.Entry, error) {
	c.count("readEntry")
	return c.Peer.ReadEntry(ctx, path)
}

func (c *calls) Lost(ctx context.Context, after int64, limit int) ([]lost.Version, bool, error) {
	c.count("lost")
	return c.Peer.Lost(ctx, after, limit)
}

func (c *calls) Await(ctx context.Context, after, known int64) (int64, error) {
	c.count("await")
	return c.Peer.Await(ctx, after, known)
}

// want compares the numbers since the last time.
func (c *calls) want(t *testing.T, what string, want numbers) {
	t.Helper()
	if diff := cmp.Diff(want, c.take()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// spread makes n files of their own content below a directory, a hundred in each.
func (e *end) spread(dir, text string, n int) {
	e.t.Helper()
	e.tick()
	_, err := e.tree.Update(context.Background(), func(ed *tree.Edit) error {
		for i := range n {
			data := fmt.Appendf(nil, "%s %d", text, i)
			d := tree.Data{Hash: tree.Sum(data), Bytes: data}
			if err := ed.PutChunks(d); err != nil {
				return err
			}
			f := tree.File{MTime: *e.clock, Parts: []tree.Part{{Hash: d.Hash, Size: int64(len(data))}}}
			if err := ed.PutFile(fmt.Sprintf("%s/d%03d/f%02d", dir, i/100, i%100), f); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		e.t.Fatalf("make files: %v", err)
	}
}

// A fetch or a push takes one call each for entries, missing hashes and objects. Content that stands
// under several paths moves once, what the other side has never. A synchronisation at rest asks
// the remote once how far it is; one that has moved something does so again at its end.
func TestCallsOfASync(t *testing.T) {
	w := newWorld(t, Config{MayDelete: func(n, of int) bool { return true }})
	c := &calls{Peer: w.remote.server}
	w.cfg.Remote = c
	step := func(what string, want numbers) {
		t.Helper()
		w.restart()
		w.sync()
		c.want(t, what, want)
		w.same()
	}
	rest := numbers{"watermarks": 1}
	push := numbers{"watermarks": 2, "hasObjects": 1, "pushObjects": 1, "out": 1, "push": 1}
	// The last push says how far the pull has come here.
	pull := numbers{"watermarks": 2, "fetchChanges": 1, "fetchObjects": 1, "in": 1, "push": 1}

	step("both are empty", numbers{"watermarks": 1, "fetchChanges": 1, "push": 1})
	w.local.spread("/a", "a", BlockObjects)
	step("the first push", numbers{"watermarks": 2, "hasObjects": 1, "pushObjects": 1, "out": BlockObjects, "push": 1})
	step("nothing", rest)
	w.local.do("write /one once")
	step("one file", push)
	step("nothing after a push", rest)
	w.remote.do("write /two twice")
	step("one file from there", pull)
	step("nothing after a pull", rest)
	w.local.do("write /same/1 equal", "write /same/2 equal", "write /same/3 equal")
	step("one content under three paths", push)
	w.local.do("write /same/4 equal")
	step("content that is there", numbers{"watermarks": 2, "hasObjects": 1, "push": 1})
	w.remote.do("write /same/5 equals", "write /same/6 equals", "write /same/7 equal")
	step("one content under two paths there, and one that is here", pull)
	w.local.spread("/b", "b", 3000)
	step("more than a block", numbers{"watermarks": 2, "hasObjects": 1, "pushObjects": 2, "out": 3000, "push": 2})
	w.local.do("mv /b /c")
	step("a rename", numbers{"watermarks": 2, "hasObjects": 1, "push": 1})
	w.remote.do("mv /c /d")
	step("a rename there", numbers{"watermarks": 2, "fetchChanges": 1, "push": 1})
	w.remote.spread("/e", "e", 3000)
	step("more than a batch", numbers{"watermarks": 2, "fetchChanges": 1, "fetchObjects": 2, "in": 3000, "push": 1})
	w.local.do("chmod /e/d000/f00 600")
	step("a mode", numbers{"watermarks": 2, "hasObjects": 1, "push": 1})
	w.remote.spread("/many", "many", 12_800)
	w.sync()
	c.take()
	w.local.do("rm /many")
	step("a removal", numbers{"watermarks": 2, "push": 1})
	w.remote.do("rm /d")
	step("a removal there", numbers{"watermarks": 2, "fetchChanges": 1, "push": 1})
}

// A remote that does not look at a base gets blocks as published clients send them, and is
// asked before each.
func TestCallsOfAPlainRemote(t *testing.T) {
	w := newWorld(t, Config{})
	c := &calls{Peer: plainPeer{w.remote.server}}
	w.cfg.Remote = c
	w.restart()
	w.local.spread("/a", "a", 3000)
	w.sync()
	c.take()
	w.local.do("mv /a /b")
	w.sync()
	c.want(t, "a rename", numbers{"watermarks": 6, "hasObjects": 3, "push": 4})
	w.same()
}

// Of the content of renamed files the remote is asked about some. Content that it lacks, since
// they were renamed before they were sent, is sent.
func TestRenameAsksLittle(t *testing.T) {
	w := newWorld(t, Config{MayDelete: func(n, of int) bool { return 2*n <= of }})
	c := &calls{Peer: w.remote.server}
	w.cfg.Remote = c
	w.restart()
	w.sync()
	const n = 20 * maxSampled
	for _, from := range []string{"/a", "/z"} { // in the order of paths, and against it
		w.local.spread(from, from, n)
		w.sync()
		c.take()
		c.asked = 0
		w.local.do("mv " + from + " /m" + from[1:])
		w.sync()
		if c.asked > maxSampled+maxSampled/2 {
			t.Errorf("%s: asked about %d of %d", from, c.asked, n)
		}
		c.want(t, from, numbers{"watermarks": 2, "hasObjects": 1, "push": 1})
		w.same()
	}
	w.local.spread("/new", "new", n)
	w.local.do("mv /new /other")
	w.sync()
	c.want(t, "new and renamed", numbers{"watermarks": 2, "hasObjects": 2, "pushObjects": 1, "out": n, "push": 1})
	w.same()
}

// A plainPeer is one of another make.
type plainPeer struct{ changes.Peer }

func (p plainPeer) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	w, err := p.Peer.Watermarks(ctx, settle)
	w.ChecksBase, w.SetsTimes, w.Lost = false, false, 0
	return w, err
}

func (p plainPeer) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	in.Base, in.Partly, in.Times, in.Ignore = nil, false, false, nil
	return p.Peer.Push(ctx, in, entries)
}

// Content that several blocks name moves once, also while the block that brings it is under way.
func TestContentOfSeveralBlocksMovesOnce(t *testing.T) {
	w := newWorld(t, Config{})
	c := &calls{Peer: w.remote.server}
	w.cfg.Remote = c
	l := standard
	l.objects, l.ask, l.entries = 3, 7, 10
	w.limits = &l
	w.restart()
	equal := func(e *end, dir string) {
		for i := range 60 {
			e.do(fmt.Sprintf("write /%s/%02d %s-%d", dir, i, dir, i%20))
		}
	}
	for _, side := range []struct {
		end  *end
		name string
	}{{w.local, "out"}, {w.remote, "in"}} {
		equal(side.end, side.name)
		w.sync()
		if got := c.take(); got[side.name] != 20 || got["in"]+got["out"] != 20 {
			t.Errorf("of 20 contents moved %v", got)
		}
		w.same()
	}
	w.rest()
}

// A push of which more paths are in conflict than a remote names goes in pieces.
func TestPushOfManyConflicts(t *testing.T) {
	const n = changes.MaxConflicts + 500
	w := newWorld(t, Config{OnConflict: Theirs})
	w.local.spread("/a", "a", n)
	w.sync()
	first := true
	w.cfg.Remote = &beforePush{w.remote.server, func() {
		if first {
			first = false
			w.remote.spread("/a", "there", n)
		}
	}}
	w.restart()
	w.local.do("rm /a")
	r := w.sync()
	if r.Conflicts != n || first {
		t.Errorf("%d conflicts, want %d", r.Conflicts, n)
	}
	w.conflicts = nil
	w.rest()
	if got, want := w.local.line("/a/d000/f00"), "/a/d000/f00 644 there 0"; got != want {
		t.Errorf("here is %q, want %q", got, want)
	}
}

// A beforePush is a peer that something is done to before each push.
type beforePush struct {
	changes.Peer
	do func()
}

func (b *beforePush) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	b.do()
	return b.Peer.Push(ctx, in, entries)
}

// More changes than are kept between the question and the push are all sent.
func TestPushOfMoreThanIsKept(t *testing.T) {
	w := newWorld(t, Config{MayDelete: func(n, of int) bool { return 2*n <= of }})
	w.local.do("write /one 1")
	w.sync()
	w.local.spread("/many", "same", maxListed+page)
	w.sync()
	w.same()
	info, err := w.remote.tree.Info(t.Context())
	if err != nil || info.Files != maxListed+page+1 {
		t.Errorf("%d files are there of %d, %v", info.Files, maxListed+page+1, err)
	}
}
