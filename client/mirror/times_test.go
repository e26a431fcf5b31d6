package mirror

import (
	"context"
	"testing"
	"time"

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
