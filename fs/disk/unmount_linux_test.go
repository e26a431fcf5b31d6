package disk_test

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// untilGone returns a function that waits for the end of the file system at the path. It may
// outlive its unmounting in mount namespaces that were made meanwhile.
func untilGone(t *testing.T, path string) func() {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err = unix.InotifyAddWatch(fd, path, unix.IN_DELETE_SELF); err != nil {
		t.Fatal(err)
	}
	return func() {
		event := make([]byte, unix.SizeofInotifyEvent)
		for mask := uint32(0); mask&unix.IN_IGNORED == 0; mask = binary.NativeEndian.Uint32(event[4:]) {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if n != 1 {
				t.Fatalf("the file system is not gone: %v", err)
			}
			if _, err := unix.Read(fd, event); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What was mounted below the directory goes, and so does what it had; what it has hidden is
// there again, and is watched.
func TestUnmounted(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/hidden/f", "1")
		b.close()
		if err := unix.Mount("none", b.path("d"), "tmpfs", 0, ""); errors.Is(err, unix.EPERM) {
			b.open()
			t.Skip("to mount a file system takes CAP_SYS_ADMIN")
		} else if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Unmount(b.path("d"), unix.MNT_DETACH) }() // if the test has not
		b.write("d/g", "2")
		b.open()
		b.same()
		gone := untilGone(t, b.path("d"))
		b.must(unix.Unmount(b.path("d"), 0))
		gone()
		b.settle()
		b.same()
		b.write("d/hidden/g", "3")
		b.must(os.Remove(b.path("d/hidden/f")))
		b.settle()
		b.same()
	})
}
