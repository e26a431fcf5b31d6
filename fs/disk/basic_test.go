package disk_test

import (
	"os"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
)

func TestSettleAndApply(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("a/b/c.txt", "hello")
	b.write("d", "there")
	b.must(os.Symlink("d", b.path("l")))
	b.must(os.Chmod(b.path("d"), 0o600))
	b.settle()
	b.want(map[string]string{"a": "dir 0755", "a/b": "dir 0755", "a/b/c.txt": "file 0644 hello", "d": "file 0600 there", "l": "link d"})

	done := b.apply(b.file("/workspace/new/f", "pushed", 0o755), folder("/workspace/a", 0o700), remove("/workspace/a/b"), link("/workspace/l", "new/f"))
	if done.Entries != 4 || done.Changed != 4 || done.Rev != b.rev() {
		t.Errorf("applied %+v", done)
	}
	want := map[string]string{"a": "dir 0700", "new": "dir 0755", "new/f": "file 0755 pushed", "d": "file 0600 there", "l": "link new/f"}
	b.want(want)
	rev := b.rev()
	b.settle()
	if b.rev() != rev {
		t.Errorf("settling what was applied changed %v", b.changed(rev))
	}
	b.reopen()
	b.want(want)
	if b.rev() != rev {
		t.Errorf("opening again changed %v", b.changed(rev))
	}
}
