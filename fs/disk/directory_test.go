package disk_test

import (
	"os"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
)

// A directory that is removed and made again has another identity, one that changes has the same.
func TestIdentity(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("d/f", "1")
	b.settle()
	first := b.ws.Identity("/workspace/d")
	b.must(os.Remove(b.path("d/f")))
	b.must(os.Chmod(b.path("d"), 0o700))
	b.settle()
	if got := b.ws.Identity("/workspace/d"); got != first || got == "" {
		t.Errorf("the identity %q becomes %q", first, got)
	}
	b.must(os.Remove(b.path("d")))
	b.must(os.Mkdir(b.path("d"), 0o700))
	b.settle()
	if got := b.ws.Identity("/workspace/d"); got == first || got == "" {
		t.Errorf("the identity of another directory is %q", got)
	}
	b.write("f", "1")
	for _, path := range []string{"/workspace/f", "/workspace/none", "/workspace", "/elsewhere"} {
		if got := b.ws.Identity(path); got != "" {
			t.Errorf("the identity of %s is %q", path, got)
		}
	}
}
