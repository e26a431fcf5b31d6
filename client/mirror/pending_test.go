package mirror

import (
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

func TestPending(t *testing.T) {
	w := newWorld(t, Config{})
	want := func(what string, here, there bool) {
		t.Helper()
		local, err := w.m.LocalPending(t.Context())
		remote, err2 := w.m.RemotePending(t.Context())
		if err != nil || err2 != nil || local != here || remote != there {
			t.Errorf("%s: pending here %t, there %t, want %t, %t (%v, %v)", what, local, remote, here, there, err, err2)
		}
	}
	w.sync()
	want("in step", false, false)
	w.local.do("write /f one")
	want("changed here", true, false)
	w.sync()
	want("in step", false, false)
	w.remote.do("write /g two")
	want("changed there", false, true)
	// What comes while the other is sent counts as well.
	w.local.do("write /h three")
	if _, err := w.m.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("pushed only", false, true)
	w.sync()
	want("in step", false, false)
	w.remote.open(tree.NewMemory(), 50)
	w.cfg.Remote = w.remote.server
	w.m.cfg.Remote = w.remote.server
	want("lost", false, true)
	w.sync()
	want("in step", false, false)
}
