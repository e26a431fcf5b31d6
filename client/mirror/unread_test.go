package mirror

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

func unread(paths ...string) []changes.Skipped {
	s := changes.Skipped{Why: changes.Unreadable, Count: len(paths)}
	for _, p := range paths {
		s.Paths = append(s.Paths, changes.SkippedPath{Path: p, Error: "its content cannot be read; the change is not sent"})
	}
	return []changes.Skipped{s}
}

// find puts content back into the store that was lost, as when a file can be read again.
func (e *end) find(texts ...string) {
	e.t.Helper()
	for _, text := range texts {
		b := []byte(text)
		if _, err := e.forest.Pack(context.Background(), tree.Data{Hash: tree.Sum(b), Bytes: b}); err != nil {
			e.t.Fatalf("find %q: %v", text, err)
		}
	}
}

// A change whose content cannot be read here holds up nothing else. It stays a change, is named each time,
// and is sent once it can be read, also after a restart.
func TestUnreadableHere(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /old 1", "write /gone 2")
	w.sync()
	w.local.do("write /new secret", "write /old hidden", "rm /gone", "write /d/two 3", "write /zzz last")
	w.local.lose("secret")
	w.local.lose("hidden")
	for i := range 3 {
		r := w.sync()
		if diff := cmp.Diff(unread("/new", "/old"), r.Here); diff != "" {
			t.Fatalf("left out (-want +got):\n%s", diff)
		}
		if i == 0 && r.Pushed != 4 || i > 0 && r.moved() {
			t.Errorf("run %d: %+v", i, r)
		}
		w.remote.want("/d/ 755", "/d/two 644 3", "/old 644 1", "/zzz 644 last")
		if i > 0 { // also without a restart
			w.restart()
		}
	}
	w.local.find("secret", "hidden")
	w.restart()
	if r := w.sync(); len(r.Here) != 0 || r.Pushed != 2 {
		t.Errorf("%+v", r)
	}
	w.rest()
	w.wantConflicts()
}

// So does one that is sent while the remote loses what it had of it.
func TestUnreadableHereSentAgain(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /a text")
	w.sync()
	w.local.lose("text")
	lost := false
	w.cfg.Remote = &beforePush{w.remote.server, func() {
		if !lost {
			lost = true
			w.remote.do("write /a other")
			w.remote.lose("text")
		}
	}}
	w.restart()
	w.local.do("write /c more")
	w.local.lose("text")
	w.local.do("mv /a /b")
	r := w.sync()
	if diff := cmp.Diff(unread("/b"), r.Here); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	w.remote.want("/a 644 other", "/c 644 more")
	w.local.find("text")
	w.restart()
	w.sync()
	w.rest()
}

// A watch does not try over and over what it cannot read: what has another version at once, all else after
// a pause, and without asking the remote.
func TestUnreadableHereWatchPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.local.do("write /one 1")
		w.sync()
		w.local.do("write /x secret", "write /y hidden")
		w.local.lose("secret")
		w.local.lose("hidden")
		w.sync()
		pending := func(want bool) {
			t.Helper()
			if got, err := w.m.LocalPending(t.Context()); got != want || err != nil {
				t.Errorf("pending: %v, %v, want %v", got, err, want)
			}
		}
		pending(false)
		w.local.do("write /two 2")
		pending(true)
		if r := w.sync(); len(r.Here) != 1 || r.Here[0].Count != 2 || r.Pushed != 1 {
			t.Errorf("%+v", r)
		}
		pending(false)
		time.Sleep(noRoomPause)
		pending(false)
		w.local.find("secret")
		pending(false)
		time.Sleep(noRoomPause)
		pending(true)
		if r := w.sync(); len(r.Here) != 1 || r.Here[0].Count != 1 || r.Pushed != 1 {
			t.Errorf("%+v", r)
		}
		pending(false)
		w.local.do("write /y new")
		pending(true)
		if r := w.sync(); len(r.Here) != 0 {
			t.Errorf("left out: %v", r.Here)
		}
		pending(false)
		w.rest()
	})
}

// A naming Workspace names paths that it cannot read.
type naming struct {
	changes.Workspace
	paths []changes.SkippedPath
}

func (n *naming) Skipped(keep func(string) bool) []changes.Skipped {
	s := changes.Skipped{Why: changes.Unreadable}
	for _, p := range n.paths {
		if keep(p.Path) {
			s.Count++
			s.Paths = append(s.Paths, p)
		}
	}
	if s.Count == 0 {
		return nil
	}
	return []changes.Skipped{s}
}

// A path that the workspace names, or one above it, is named once. A watch tries it again once it is
// named no more.
func TestUnreadableHereIsNamedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		ws := &naming{Workspace: w.local.ws}
		w.local.ws = ws
		w.restart()
		w.sync()
		ws.paths = []changes.SkippedPath{{Path: "/d", Error: "permission denied"}, {Path: "/x", Error: "permission denied"}}
		w.local.do("write /x secret", "write /d/e hidden", "write /y other")
		for _, text := range []string{"secret", "hidden", "other"} {
			w.local.lose(text)
		}
		r := w.sync()
		want := unread("/y")
		want[0].Count, want[0].Paths = 3, append(ws.paths[:2:2], want[0].Paths...)
		if diff := cmp.Diff(want, r.Here); diff != "" {
			t.Errorf("left out (-want +got):\n%s", diff)
		}
		ws.paths = ws.paths[:1]
		w.local.find("secret")
		if got, err := w.m.LocalPending(t.Context()); !got || err != nil {
			t.Errorf("pending: %v, %v", got, err)
		}
		w.sync()
		if got := strings.Join(w.remote.list(), " "); got != "/d/ 755 /x 644 secret" {
			t.Errorf("the remote has %q", got)
		}
	})
}
