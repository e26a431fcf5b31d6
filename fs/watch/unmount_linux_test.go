package watch

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What is under the names after an unmount nobody tells, so that is told as lost.
func TestUnmountIsALoss(t *testing.T) {
	var b []byte
	for _, mask := range []uint32{unix.IN_UNMOUNT, unix.IN_IGNORED} {
		for _, field := range []uint32{7, mask, 0, 0} {
			b = binary.NativeEndian.AppendUint32(b, field)
		}
	}
	events, lost := parse(b)
	if want := []Event{{ID: 7, Op: gone}}; !lost || !slices.Equal(events, want) {
		t.Errorf("got %v, lost %v", events, lost)
	}
}

// Where a file system was unmounted, what is below it is watched.
func TestTreeIsUnmounted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); errors.Is(err, unix.EPERM) {
		t.Skip("to mount a file system takes CAP_SYS_ADMIN")
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }() // if the test has not
	w := watchTree(t, NewHub(), Options{Path: dir, Recursive: true})
	defer w.tree.Close()
	w.do(unix.Unmount(dir, 0))
	w.untilLost()
	w.put("a")
	w.until("+a")
}
