package disk_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// What was mounted below the directory goes, and so does what it had; what it has hidden is
// there again, and is watched.
func TestUnmounted(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/hidden/f", "1")
		b.close()
		if err := unix.Mount("none", b.path("d"), "tmpfs", 0, ""); err != nil {
			b.open()
			t.Skip("file systems cannot be mounted here: ", err)
		}
		defer func() { _ = unix.Unmount(b.path("d"), unix.MNT_DETACH) }() // if the test has not
		b.write("d/g", "2")
		b.open()
		b.same()
		b.must(unix.Unmount(b.path("d"), 0))
		b.settle()
		b.same()
		b.write("d/hidden/g", "3")
		b.must(os.Remove(b.path("d/hidden/f")))
		b.settle()
		b.same()
	})
}
