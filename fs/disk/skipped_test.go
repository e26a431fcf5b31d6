package disk_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// skipped lists what is left out, a line each.
func (b *bench) skipped() []string {
	var out []string
	for _, s := range b.ws.Skipped(nil) {
		if s.Count != len(s.Paths) {
			out = append(out, fmt.Sprintf("%s: %d of %d", s.Why, len(s.Paths), s.Count))
			continue
		}
		for _, p := range s.Paths {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Why, strings.TrimPrefix(p.Path, "/workspace/"), p.Error)))
		}
	}
	return out
}

func (b *bench) wantSkipped(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.skipped()); diff != "" {
		b.t.Errorf("left out (-want +got):\n%s", diff)
	}
}

// Skipped names a path that is left out, with the reason, as long as it is there, and by its
// new name when its directory is renamed.
func TestC056LeftOutIsNamed(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/f", "1")
		b.must(unix.Mkfifo(b.path("d/ff"), 0o600))
		b.must(os.Symlink(" ", b.path("d/l")))
		b.must(os.Symlink(" ", b.path("l")))
		b.settle()
		const why = "a link to a text that is blank, or longer than a tree can have it"
		want := []string{`special d/ff`, `name d/l ` + why, `name l ` + why}
		b.wantSkipped(want...)
		b.write("d/other", "2")
		b.write("new", "2")
		b.settle()
		b.wantSkipped(want...)
		b.must(os.Rename(b.path("d"), b.path("e")))
		b.settle()
		b.wantSkipped(`special e/ff`, `name e/l `+why, `name l `+why)
		b.must(os.Remove(b.path("e/ff")))
		b.write("e/ff", "a file now")
		b.must(os.Remove(b.path("l")))
		b.settle()
		b.wantSkipped(`name e/l ` + why)
		b.must(os.RemoveAll(b.path("e")))
		b.settle()
		b.wantSkipped()
		keep := func(path string) bool { return !strings.HasSuffix(path, "no") }
		b.must(unix.Mkfifo(b.path("no"), 0o600))
		b.settle()
		if got := b.ws.Skipped(keep); len(got) != 0 {
			t.Errorf("not wanted: %+v", got)
		}
	})
}

// Skipped names a path that may not be read until it can be read.
func TestC056UnreadableIsNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	both(t, func(t *testing.T, b *bench) {
		b.write("good", "g")
		b.write("unread", "q")
		b.write("priv/p", "p")
		b.write("was", "w")
		b.must(os.Chmod(b.path("unread"), 0))
		b.must(os.Chmod(b.path("priv"), 0))
		b.settle()
		b.wantSkipped("unreadable priv permission denied", "unreadable unread permission denied")
		b.must(os.Chmod(b.path("was"), 0))
		b.settle()
		b.write("good", "more")
		b.settle()
		b.wantSkipped("unreadable priv permission denied", "unreadable unread permission denied", "unreadable was permission denied")
		b.reopen()
		b.wantSkipped("unreadable priv permission denied", "unreadable unread permission denied", "unreadable was permission denied")
		kinds := map[string]tree.Kind{}
		for _, e := range b.ws.Unread() { // without what only its mode has closed
			kinds[e.Path] = e.Kind
		}
		if diff := cmp.Diff(map[string]tree.Kind{"/workspace/unread": tree.KindFile}, kinds); diff != "" {
			t.Errorf("unread (-want +got):\n%s", diff)
		}
		for path, mode := range map[string]os.FileMode{"priv": 0o755, "unread": 0o644, "was": 0o644} {
			b.must(os.Chmod(b.path(path), mode))
		}
		b.settle()
		b.wantSkipped()
	})
}

// The first of many are named, the others counted.
func TestC056Many(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		for i := range changes.MaxSkipped + 1 {
			b.must(unix.Mkfifo(b.path(fmt.Sprintf("p%03d", i)), 0o600))
		}
		b.settle()
		b.wantSkipped("special: 100 of 101")
		if first := b.ws.Skipped(nil)[0].Paths[0].Path; first != "/workspace/p000" {
			t.Errorf("the first is %s", first)
		}
		b.must(os.Remove(b.path("p050")))
		b.settle()
		if got := b.skipped(); len(got) != changes.MaxSkipped {
			t.Errorf("%d are named", len(got))
		}
	})
}

// Skipped names a path that could not be written, after every call, until it is written.
func TestC052UnwrittenIsNamed(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.settle()
		b.refuse(nil, "f")
		b.push(b.file("/workspace/f", "pushed", 0o644), b.file("/workspace/g", "pushed", 0o644))
		b.wantSkipped("unwritten f device or resource busy")
		for range 3 {
			b.settle()
			b.wantSkipped("unwritten f device or resource busy")
		}
		b.apply(b.file("/workspace/h", "of another batch", 0o644))
		b.wantSkipped("unwritten f device or resource busy")
		b.ws.Hook(nil)
		b.settle()
		b.wantSkipped()
	})
}

// A settle takes changes in a directory of which only the mode cannot be set.
func TestC052OnlyTheMode(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/f", "1")
		b.settle()
		b.ws.Hook(func(op, path string) error {
			if op == "finish" && path == "d" {
				return unix.EPERM
			}
			return nil
		})
		b.push(folder("/workspace/d", 0o700))
		b.write("d/f", "2")
		b.write("d/g", "3")
		b.settle()
		b.wantSkipped("unwritten d operation not permitted")
		if got := b.inTree(); got["d/f"] != "file 0644 2" || got["d/g"] != "file 0644 3" || got["d"] != "dir 0700" {
			t.Errorf("the tree: %v", got)
		}
		b.ws.Hook(nil)
		b.settle()
		b.want(map[string]string{"d": "dir 0700", "d/f": "file 0644 2", "d/g": "file 0644 3"})
	})
}

// A batch that does not fit is applied as far as it does when the caller reads what is
// missing.
func TestL1AnyRoom(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.settle()
		b.ws.Room(3)
		b.ws.Hook(func(op, path string) error {
			if op == "write" && path == "large" {
				return unix.ENOSPC
			}
			return nil
		})
		batch := seq([]tree.Entry{b.file("/workspace/large", "does not fit", 0o644), b.file("/workspace/small", "s", 0o644)})
		done, err := b.ws.Apply(t.Context(), batch, changes.AnyRoom, nil)
		if pending, ok := errors.AsType[*changes.PendingError](err); !ok || !pending.Partly || done.Changed != 2 {
			t.Errorf("%+v, %v", done, err)
		}
		b.wantSkipped("unwritten large no space left on device")
		b.ws.Hook(nil)
		b.ws.Room(-1)
		b.settle()
		b.want(map[string]string{"large": "file 0644 does not fit", "small": "file 0644 s"})
	})
}

// A directory is named as soon as it may not be looked into, whoever has closed it.
func TestShutDirectoryIsNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	both(t, func(t *testing.T, b *bench) {
		b.write("d/f", "1")
		b.write("e/f", "1")
		quiet(b)
		b.must(os.Chmod(b.path("d"), 0))
		b.apply(folder("/workspace/e", 0))
		b.settle()
		b.wantSkipped(`unreadable d permission denied`, `unreadable e permission denied`)
		b.must(os.Chmod(b.path("d"), 0o755))
		b.apply(folder("/workspace/e", 0o755))
		b.settle()
		b.wantSkipped()
	})
}
