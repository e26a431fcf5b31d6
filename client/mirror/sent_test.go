package mirror

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

// OnSent gets each path that the remote has taken, and none that came from there.
func TestOnSent(t *testing.T) {
	var sent []Move
	w := newWorld(t, Config{LocalRoot: "/here", RemoteRoot: "/w", OnSent: func(m Move) { sent = append(sent, m) }})
	w.local.do("write /here/a 1", "write /here/d/b 22")
	w.remote.do("write /w/c 1")
	w.sync()
	want := []Move{{true, "/here/a", tree.KindFile, 1}, {true, "/here/d", tree.KindDir, 0}, {true, "/here/d/b", tree.KindFile, 2}}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Error(diff)
	}
	sent = nil
	w.local.do("rm /here/a")
	w.remote.do("write /w/c 2")
	if r := w.sync(); r.Unwritten+r.UnwrittenHere != 0 {
		t.Errorf("some were not written: %+v", r)
	}
	if diff := cmp.Diff([]Move{{true, "/here/a", tree.KindDelete, 0}}, sent); diff != "" {
		t.Error(diff)
	}
}
