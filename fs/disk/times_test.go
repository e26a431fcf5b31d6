package disk_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A time that 64 bits of nanoseconds cannot have is brought as the nearest one that they can, both ways.
func TestTimesFarAway(t *testing.T) {
	b := newBench(t, disk.Config{})
	for name, at := range map[string]time.Time{
		"early": time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), "late": time.Date(2300, 1, 2, 3, 4, 5, 0, time.UTC), "later": time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		e := b.file("/workspace/there-"+name, "text", 0o644)
		e.MTime = at
		b.apply(e)
		b.write("here-"+name, "text")
		b.must(unix.UtimesNanoAt(unix.AT_FDCWD, b.path("here-"+name), []unix.Timespec{{Sec: at.Unix()}, {Sec: at.Unix()}}, 0))
		b.settle()
		for _, path := range []string{"there-" + name, "here-" + name} {
			info, err := os.Stat(b.path(path))
			b.must(err)
			disk := info.ModTime() // file systems have bounds of their own
			if year := disk.UTC().Year(); at.Year() > 2000 && year < 2038 {
				t.Errorf("%s has a time of %d", path, year)
			}
			got, err := b.tree.Entry(t.Context(), "/workspace/"+path)
			b.must(err)
			if want := time.Unix(0, tree.Nanos(disk)); !got.MTime.Equal(want) {
				t.Errorf("%s has the time %v in the tree, want %v", path, got.MTime, want)
			}
		}
		rev := b.rev()
		if b.settle(); b.rev() != rev {
			t.Errorf("%s: a settle finds a change", name)
		}
	}
}
