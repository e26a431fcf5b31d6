package mirror

import (
	"context"
	"errors"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A racing Peer calls fn before its first push, or before it lists its changes.
type racing struct {
	changes.Peer
	old         bool // it knows no PushInput.Alone
	plain       bool // and neither Base nor Ignore
	fetch, push func()
}

func (l *racing) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	wm, err := l.Peer.Watermarks(ctx, settle)
	wm.ChecksAlone, wm.ChecksBase = wm.ChecksAlone && !l.old, wm.ChecksBase && !l.plain
	return wm, err
}

func (l *racing) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	if fn := l.fetch; fn != nil {
		l.fetch = nil
		fn()
	}
	return l.Peer.FetchChanges(ctx, q)
}

func (l *racing) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	if fn := l.push; fn != nil {
		l.push = nil
		fn()
	}
	in.Alone = in.Alone && !l.old
	if l.plain {
		in.Base, in.Ignore = nil, nil
	}
	return l.Peer.Push(ctx, in, entries)
}

// A remote that was blank when both sides met is not mixed with when somebody else has been faster,
// whenever that is.
func TestNotBlank(t *testing.T) {
	for name, change := range map[string]func(*world, *racing){
		"before it connects": func(w *world, _ *racing) { w.remote.do("write /b 2") },
		"before the push":    func(w *world, l *racing) { l.push = func() { w.remote.do("write /b 2") } },
		"a link":             func(w *world, l *racing) { l.push = func() { w.remote.do("ln to /b") } },
		"in a directory":     func(w *world, l *racing) { l.push = func() { w.remote.do("mkdir /d", "write /d/b 2") } },
		"an old remote":      func(w *world, l *racing) { l.old = true; l.fetch = func() { w.remote.do("write /b 2") } },
		"a plain remote":     func(w *world, l *racing) { l.old, l.plain = true, true; l.fetch = func() { w.remote.do("write /b 2") } },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			l := &racing{Peer: w.remote.server}
			w.cfg.Remote, w.cfg.Blank = l, true
			w.restart()
			w.local.do("write /a 1")
			here := w.local.list()
			if blank, err := w.m.Blank(t.Context()); !blank || err != nil {
				t.Fatal(blank, err)
			}
			change(w, l)
			for range 2 {
				if _, err := w.m.Sync(t.Context()); !errors.Is(err, ErrNotBlank) {
					t.Fatalf("got %v", err)
				}
				w.local.want(here...)
				if got := w.remote.line("/a"); got != "" {
					t.Errorf("there is %q", got)
				}
				w.restart()
			}
			if c := w.contact(); c == nil || c.Here != 1 || c.There != 1 || c.Differ+c.Same != 0 {
				t.Errorf("got %+v", c)
			}
			w.cfg.Blank, w.cfg.First = false, "merge"
			w.restart()
			w.sync()
			w.rest()
			w.local.want(w.remote.list()...)
		})
	}
}

// What was sent from here, and not answered, is nobody else's.
func TestBlankUnanswered(t *testing.T) {
	w := newWorld(t, Config{Blank: true})
	f := &failing{Peer: w.remote.server, n: 1, applies: true}
	w.cfg.Remote = f
	l := standard
	l.entries = 2
	w.limits = &l
	w.restart()
	w.local.do("write /a 1", "write /b 2", "write /c 3", "write /d 4")
	if _, err := w.m.Sync(t.Context()); !errors.Is(err, errFailing) {
		t.Fatal(err)
	}
	w.restart()
	w.local.do("write /a other", "rm /b")
	if c := w.contact(); c != nil {
		t.Errorf("got %+v", c)
	}
	w.sync()
	w.rest()
	w.remote.want("/a 644 other", "/c 644 3", "/d 644 4")

	// From now on it may be mixed.
	w.remote.do("write /e 5")
	w.sync()
	w.rest()
	if c := w.contact(); c != nil {
		t.Errorf("got %+v", c)
	}
}

// A remote that has taken a first push, whose answer never came, is in step with this side: what somebody
// changes there comes over, what is the same stays, and what both have changed is a conflict.
func TestFirstEUnanswered(t *testing.T) {
	for name, plain := range map[string]bool{"wsd": false, "a plain remote": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: Both, Blank: true})
			w.cfg.Remote = &failing{Peer: &racing{Peer: w.remote.server, plain: plain, old: plain}, n: 1, applies: true}
			w.local.do("write /a 1", "write /b 1", "write /c 1", "write /d 1", "write /e 1")
			w.restart()
			if _, err := w.m.Sync(t.Context()); !errors.Is(err, errFailing) {
				t.Fatal(err)
			}
			w.restart()
			w.remote.do("write /a there", "rm /b", "write /new 1", "write /c there")
			w.local.do("write /c here", "rm /d")
			if blank, err := w.m.Blank(t.Context()); blank || err != nil {
				t.Error(blank, err)
			}
			if c := w.contact(); c != nil {
				t.Errorf("got %+v", c)
			}
			w.cfg.Blank = false
			w.restart()
			w.sync()
			w.rest()
			if got := w.local.list(); len(got) != 5 || got[0] != "/a 644 there" || got[1] != "/c 644 there" || got[3] != "/e 644 1" || got[4] != "/new 644 1" {
				t.Errorf("there are %q", got)
			}
			if len(w.conflicts) != 1 {
				t.Errorf("conflicts: %q", w.conflicts)
			}
		})
	}
}

// One that has not taken it, or has taken somebody else's push since, is not mixed with.
func TestFirstENotTaken(t *testing.T) {
	for name, applies := range map[string]bool{"not taken": false, "another push since": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{Blank: true})
			w.cfg.Remote = &failing{Peer: w.remote.server, n: 1, applies: applies}
			w.local.do("write /a 1", "write /b 1")
			w.restart()
			if _, err := w.m.Sync(t.Context()); !errors.Is(err, errFailing) {
				t.Fatal(err)
			}
			other := newEnd(t, 5000)
			other.do("write /other 1")
			if _, err := New(Config{Local: other.ws, Remote: w.remote.server}).Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.restart()
			if c := w.contact(); c == nil || c.There != 1 {
				t.Errorf("got %+v", c)
			}
			if _, err := w.m.Sync(t.Context()); !errors.Is(err, ErrNotBlank) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// One that stays blank costs no call more.
func TestBlankCalls(t *testing.T) {
	calls := func(blank bool) int {
		w := newWorld(t, Config{})
		c := &fetchCounter{Peer: w.remote.server}
		w.cfg.Remote, w.cfg.Blank = c, blank
		w.restart()
		w.local.do("write /a 1")
		w.sync()
		w.rest()
		return c.n
	}
	if got, want := calls(true), calls(false); got != want {
		t.Errorf("the remote was asked for its changes %d times, want %d", got, want)
	}
}
