package mirror

import (
	"context"
	"errors"
	"strings"
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
			if c := w.contact(); c == nil || c.Here != 1 || c.There != 1 || c.Differ+c.Same != 0 || c.Cut {
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
	if c := w.contact(); c == nil || c.There+c.Differ+c.Same != 0 || c.Here != 2 {
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

// A remote whose answer to the first push never came, and that somebody has changed since, is not mixed with
// until a choice is made.
func TestFirstEChangedThere(t *testing.T) {
	other := func(w *world) {
		o := newEnd(t, 5000)
		o.do("write /other 1")
		if _, err := New(Config{Local: o.ws, Remote: w.remote.server}).Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		applies bool
		change  func(*world)
		want    Contact
	}{
		"a push, this one not applied": {false, other, Contact{Here: 2, There: 1}},
		"a push":                       {true, other, Contact{There: 1}},
		"a file that was sent":         {true, func(w *world) { w.remote.do("write /b there") }, Contact{Differ: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{Blank: true, OnConflict: Both})
			w.cfg.Remote = &failing{Peer: w.remote.server, n: 1, applies: tt.applies}
			w.local.do("write /a 1", "write /b 1")
			w.restart()
			if _, err := w.m.Sync(t.Context()); !errors.Is(err, errFailing) {
				t.Fatal(err)
			}
			tt.change(w)
			w.restart()
			if c := w.contact(); c == nil || c.Here != tt.want.Here || c.There != tt.want.There || c.Differ != tt.want.Differ || c.Same != 0 || !c.Cut {
				t.Errorf("got %+v", c)
			}
			if _, err := w.m.Sync(t.Context()); !errors.Is(err, ErrNotBlank) {
				t.Errorf("got %v", err)
			}
			w.local.want("/a 644 1", "/b 644 1")
			w.cfg.Blank, w.cfg.First = false, "merge"
			w.restart()
			w.sync()
			w.rest()
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

// While the answer to the first push has not come, this side does not know what the remote left out of it.
// Nothing here makes way for versions that somebody has written there just before it.
func TestFirstELeftOutThere(t *testing.T) {
	for name, tt := range map[string]struct {
		old   bool
		there []string // before the push
		err   error
	}{
		"a file, at an old remote": {old: true, there: []string{"write /b theirs"}, err: ErrNotBlank},
		"a directory":              {there: []string{"mkdir /b"}},
		"directories":              {there: []string{"mkdir /b", "mkdir /b/in"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{Blank: true, OnConflict: Both})
			w.local.do("write /a 1", "write /b mine")
			w.cfg.Remote = &failing{Peer: &racing{Peer: w.remote.server, old: tt.old, push: func() { w.remote.do(tt.there...) }}, n: 1, applies: true}
			w.restart()
			if _, err := w.m.Sync(t.Context()); !errors.Is(err, errFailing) {
				t.Fatal(err)
			}
			w.restart()
			_, err := w.m.Sync(t.Context())
			if !errors.Is(err, tt.err) {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				w.local.want("/a 644 1", "/b 644 mine")
				return
			}
			w.sync()
			w.rest()
			if len(w.conflicts) != 1 {
				t.Errorf("conflicts: %q", w.conflicts)
			}
			copied := false
			for _, line := range w.local.list() {
				copied = copied || strings.HasSuffix(line, " 644 mine")
			}
			if !copied {
				t.Errorf("there are %q", w.local.list())
			}
		})
	}
}

// Content for which the remote had no room is sent once there is room, also when the answer to the first push
// was lost.
func TestFirstELeftOutHere(t *testing.T) {
	w, remote := newSmall(t, Config{Blank: true})
	remote.room = 20
	w.cfg.Remote = &failing{Peer: remote, n: 1, applies: true}
	w.local.do("write /a 1", "write /big "+strings.Repeat("x", 40))
	w.restart()
	if _, err := w.m.Sync(t.Context()); !errors.Is(err, errFailing) {
		t.Fatal(err)
	}
	w.remote.want("/a 644 1")
	remote.room = 1 << 20
	w.restart()
	if r := w.sync(); len(r.There) != 0 {
		t.Errorf("left out: %v", r.There)
	}
	w.rest()
	w.remote.want("/a 644 1", "/big 644 "+strings.Repeat("x", 40))
}

// A push of somebody else's may end at the same revision as one from here that never arrived.
func TestFirstESameCursor(t *testing.T) {
	w := newWorld(t, Config{Blank: true})
	w.cfg.Remote = &failing{Peer: w.remote.server, n: 1}
	w.local.do("write /a 1", "write /b 1")
	w.restart()
	if _, err := w.m.Sync(t.Context()); !errors.Is(err, errFailing) {
		t.Fatal(err)
	}
	other := newEnd(t, 100)
	other.do("write /a 1", "write /other 1")
	if _, err := New(Config{Local: other.ws, Remote: w.remote.server}).Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if _, err := w.m.Sync(t.Context()); !errors.Is(err, ErrNotBlank) {
		t.Errorf("got %v", err)
	}
	w.local.want("/a 644 1", "/b 644 1")
}
