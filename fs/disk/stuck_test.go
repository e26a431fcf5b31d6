package disk_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A path that cannot be brought holds up itself and nothing else: not the rest of its
// batch, not later batches, not what commands do elsewhere. What is
// there is not taken for news, and once it can be brought, it is.
func TestStuck(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("mounted/theirs", "kept")
		b.write("elsewhere", "1")
		b.settle()
		stuck := func(op, path string) error {
			if (op == "clear" || op == "write" || op == "place") && (path == "mounted" || path == "mounted/theirs") {
				return unix.EBUSY
			}
			return nil
		}
		b.ws.Hook(stuck)
		batch := []tree.Entry{b.file("/workspace/mounted", "pushed", 0o600), b.file("/workspace/other", "pushed too", 0o644)}
		done, err := b.ws.Apply(t.Context(), seq(batch), tree.SkipSame, nil)
		if _, ok := errors.AsType[*disk.PendingError](err); !ok || !errors.Is(err, unix.EBUSY) || done.Changed != 2 {
			t.Fatalf("%+v, %v", done, err)
		}
		b.apply(b.file("/workspace/later", "fine", 0o644)) // of another batch
		b.write("elsewhere", "2")
		b.settle()
		rev := b.rev()
		want := map[string]string{"mounted": "file 0600 pushed", "other": "file 0644 pushed too", "later": "file 0644 fine", "elsewhere": "file 0644 2"}
		got := b.inTree()
		for path, what := range want {
			if got[path] != what {
				t.Errorf("the tree has %q as %s, not %q", got[path], path, what)
			}
		}
		for path, what := range map[string]string{"mounted/theirs": "kept", "other": "pushed too", "later": "fine"} {
			if text, err := os.ReadFile(b.path(path)); err != nil || string(text) != what {
				t.Errorf("the directory has %q as %s: %v", text, path, err)
			}
		}
		b.write("mounted/theirs", "changed in between") // the tree has something newer
		b.settle()
		if now := b.rev(); now != rev {
			t.Errorf("revision %d became %d: what is stuck was taken for news", rev, now)
		}
		b.ws.Hook(nil)
		b.reopen()
		b.want(want)
	})
}
