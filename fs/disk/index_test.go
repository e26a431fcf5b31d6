package disk

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/wsd-dev/wsd/fs/tree"
)

// The index has the names of files, and does not hold the paths that it was given.
func TestIndexHoldsNoPaths(t *testing.T) {
	dir, path := strings.Repeat("d", 200), strings.Repeat("d", 200)+"/f"
	x := newIndex()
	if err := x.put(dir, stat{kind: tree.KindDir}); err != nil {
		t.Fatal(err)
	}
	if err := x.put(path, stat{kind: tree.KindFile}); err != nil {
		t.Fatal(err)
	}
	n := x.find(path)
	begin, end := uintptr(unsafe.Pointer(unsafe.StringData(path))), uintptr(unsafe.Pointer(unsafe.StringData(path)))+uintptr(len(path))
	if at := uintptr(unsafe.Pointer(unsafe.StringData(n.name))); n.name != "f" || at >= begin && at < end {
		t.Errorf("the name %q is a piece of the path", n.name)
	}
	to := strings.Repeat("d", 200) + "/g"
	x.move(n, to)
	begin, end = uintptr(unsafe.Pointer(unsafe.StringData(to))), uintptr(unsafe.Pointer(unsafe.StringData(to)))+uintptr(len(to))
	if at := uintptr(unsafe.Pointer(unsafe.StringData(n.name))); n.name != "g" || at >= begin && at < end {
		t.Errorf("after a move the name %q is a piece of the path", n.name)
	}
}
