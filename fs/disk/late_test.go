package disk_test

import (
	"fmt"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A path that is brought by another attempt of the same call, or run, is not late. Once that was
// counted, or the workspace was opened anew, it is.
func TestLateCountsRunsBefore(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		want := func(when string, want int) {
			t.Helper()
			if n := b.ws.TakeLate(); n != want {
				t.Errorf("%s: %d late, want %d", when, n, want)
			}
		}
		b.refuse(nil, "a")
		b.push(b.file("/workspace/a", "1", 0o644))
		b.ws.Hook(nil)
		b.settle()
		want("brought in the same run", 0)

		b.refuse(nil, "a", "b")
		b.push(b.file("/workspace/a", "2", 0o644), b.file("/workspace/b", "2", 0o644))
		want("not brought", 0)
		b.settle()
		want("still not brought", 0)
		b.ws.Hook(nil)
		b.settle()
		want("brought in the next run", 2)

		b.refuse(nil, "a")
		b.push(b.file("/workspace/a", "3", 0o644))
		b.reopen()
		want("brought when it is opened", 1)
	})
}

// What could not be brought when the workspace was opened, either, is late once it is.
func TestLateAfterOpening(t *testing.T) {
	b := newBench(t, disk.Config{Unsettled: true})
	b.refuse(nil, "a")
	b.push(b.file("/workspace/a", "1", 0o644))
	b.reopen()
	b.refuse(nil, "a")
	b.settle()
	b.ws.Hook(nil)
	b.settle()
	if n := b.ws.TakeLate(); n != 1 {
		t.Errorf("%d late, want 1", n)
	}
}

// The paths of a batch that is too long to be kept in memory are not late.
func TestLateLongBatch(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.ws.Shrink()
		var list []tree.Entry
		for i := range 10 {
			list = append(list, b.file(fmt.Sprint("/workspace/f", i), "x", 0o644))
		}
		b.apply(list...)
		if n := b.ws.TakeLate(); n != 0 {
			t.Errorf("%d late, want 0", n)
		}
	})
}
