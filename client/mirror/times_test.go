package mirror

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

func (e *end) touch(path string, at time.Time) {
	e.t.Helper()
	_, err := e.tree.Update(context.Background(), func(edit *tree.Edit) error { return edit.Chtimes(path, at) })
	if err != nil {
		e.t.Fatalf("touch: %v", err)
	}
}

func (e *end) wantTime(path string, at time.Time) {
	e.t.Helper()
	info, err := e.tree.Lstat(context.Background(), path)
	if err != nil || !info.MTime.Equal(at) {
		e.t.Errorf("the time of %s is %v, %v; want %v", path, info.MTime.UTC(), err, at.UTC())
	}
}

// A changed time is brought to the other side, either way, without content and without a
// conflict.
func TestC071Times(t *testing.T) {
	for _, policy := range []Policy{Theirs, Ours, Both, Fail} {
		t.Run(policy.String(), func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: policy})
			w.local.do("write /f 1", "write /g 1", "write /same 1")
			w.sync()
			w.rest()
			first, second := time.Unix(1_577_836_800, 123_456_789), time.Unix(1_577_836_801, 1)
			w.local.touch("/f", first)
			w.remote.touch("/g", second)
			w.local.touch("/same", first)
			w.remote.touch("/same", second)
			if r := w.sync(); r.ObjectsIn+r.ObjectsOut != 0 || r.Pushed != 2 || r.Changed != 1 {
				t.Errorf("%+v", r)
			}
			for _, e := range []*end{w.local, w.remote} {
				e.wantTime("/f", first)
				e.wantTime("/g", second)
				e.wantTime("/same", first)
			}
			w.wantConflicts()
			w.rest()
		})
	}
}

// A file that was only touched does not count as sent to a remote that takes no times, nor is it listed.
func TestTouchedIsNotSent(t *testing.T) {
	var sent []string
	w := newWorld(t, Config{OnSent: func(m Move) { sent = append(sent, m.Path) }})
	w.cfg.Remote = plainPeer{w.remote.server}
	w.restart()
	w.local.do("write /d/f 1", "write /g 1")
	counts := func(want int, paths ...string) {
		t.Helper()
		r := w.sync()
		if got := r.Pushed - r.Same; got != want {
			t.Errorf("%d paths were sent, want %d: %+v", got, want, r)
		}
		if diff := cmp.Diff(paths, sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		sent = nil
	}
	counts(3, "/d", "/d/f", "/g")
	at := time.Unix(1_577_836_800, 0)
	w.local.touch("/g", at)
	w.local.touch("/d/f", at)
	counts(0)
	w.local.touch("/g", at.Add(time.Second))
	w.local.do("write /d/f 2", "write /n 1")
	counts(2, "/g", "/d/f", "/n") // which one is the same is not known
	w.local.do("rm /d", "write /g 2")
	counts(3, "/d", "/d/f", "/g")
}

// Times that have lost their fraction on the way, as with a side or a wire that cannot keep
// it, do not go back and forth.
func TestC071CoarseTimes(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /f 1")
	w.sync()
	fine := time.Unix(1_577_836_800, 123_456_789)
	w.local.touch("/f", fine)
	w.sync()
	w.remote.touch("/f", fine.Truncate(time.Millisecond))
	w.sync()
	w.local.wantTime("/f", fine)
	w.rest()
	w.remote.touch("/f", fine.Truncate(time.Second))
	w.sync()
	w.local.wantTime("/f", fine.Truncate(time.Second))
	w.rest()
}
