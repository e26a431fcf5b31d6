package mirror

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
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

// A stuck remote cannot write some paths.
type stuck struct {
	*changes.Server
	skipped []changes.Skipped
}

func (r *stuck) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	w, err := r.Server.Watermarks(ctx, settle)
	w.Skipped = r.skipped
	return w, err
}

// OnSent gets no path that the remote could not write.
func TestOnSentUnwritten(t *testing.T) {
	var sent []string
	w := newWorld(t, Config{OnSent: func(m Move) { sent = append(sent, m.Path) }})
	remote := &stuck{w.remote.server, unwritten("/ro/n")}
	w.cfg.Remote = remote
	w.restart()
	w.local.do("write /a 1", "write /ro/n 1", "write /z 1")
	if r := w.sync(); r.Unwritten != 1 {
		t.Errorf("Unwritten = %d, want 1", r.Unwritten)
	}
	if diff := cmp.Diff([]string{"/a", "/ro", "/z"}, sent); diff != "" {
		t.Error(diff)
	}
}
