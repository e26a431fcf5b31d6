package disk_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// sharing is a file system on which files can share blocks, as far as can be told from outside.
type sharing struct {
	calls atomic.Int64
	err   error
	spoil string // is written over what is shared
}

func (s *sharing) reflink(dst, src int) error {
	s.calls.Add(1)
	if s.err != nil {
		return s.err
	}
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return err
	}
	text := make([]byte, st.Size)
	if n, err := unix.Pread(src, text, 0); err != nil || n != len(text) {
		return err
	}
	_, err := unix.Pwrite(dst, append([]byte(s.spoil), text[len(s.spoil):]...), 0)
	return err
}

// A whole file that comes to a second path is cloned where the file system lets files share blocks;
// else, and when the clone is not what it should be, it is copied.
func TestWholeFilesAreCloned(t *testing.T) {
	text := strings.Repeat("line of a long file\n", 40_000) // of two windows
	short := "too short to be cloned"
	for name, tt := range map[string]struct {
		err   error
		spoil string
		once  bool // it is not tried again
	}{
		"shared":       {},
		"another":      {spoil: "changed"},
		"refused":      {err: unix.EPERM},
		"no room":      {err: unix.ENOSPC},
		"unsupported":  {err: unix.EOPNOTSUPP, once: true},
		"other disk":   {err: unix.EXDEV, once: true},
		"no such call": {err: unix.ENOTTY, once: true},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				fs := &sharing{err: tt.err, spoil: tt.spoil}
				b.write("stays", text)
				b.settle()
				b.ws.Reflink(fs.reflink)
				want := map[string]string{"stays": "file 0644 " + brief([]byte(text))}

				// Content of a file that stays.
				e := tree.Entry{Kind: tree.KindFile, Path: "/workspace/second", Mode: 0o600, MTime: entryTime, Size: int64(len(text))}
				stays, err := b.tree.Entry(t.Context(), "/workspace/stays")
				b.must(err)
				e.Parts = stays.Parts
				b.apply(e)
				want["second"] = "file 0600 " + brief([]byte(text))
				b.want(want)

				// Content that has arrived, for two files.
				other := strings.ToUpper(text)
				b.apply(b.file("/workspace/a", other, 0o644), b.file("/workspace/b", other, 0o755), b.file("/workspace/c", short, 0o644), b.file("/workspace/d", short, 0o644))
				want["a"], want["b"] = "file 0644 "+brief([]byte(other)), "file 0755 "+brief([]byte(other))
				want["c"], want["d"] = "file 0644 "+short, "file 0644 "+short
				b.want(want)
				calls := int64(2) // one for each path that is not the only one
				if tt.once {
					calls = 1
				}
				if got := fs.calls.Load(); got != calls {
					t.Errorf("%d clones were tried, want %d", got, calls)
				}

				// What the file that stays has later is its own.
				b.write("stays", "short by now")
				b.settle()
				want["stays"] = "file 0644 short by now"
				b.want(want)
				b.reopen()
				b.want(want)
			})
		})
	}
}

// A file that a command has open for writing when an entry renames it is cloned: what is written to
// it later is not in the clone.
func TestRenamedWhileWrittenIsCloned(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 10_000)
	b := newBench(t, disk.Config{})
	fs := new(sharing)
	b.write("old", text)
	b.settle()
	b.ws.Reflink(fs.reflink)
	f, err := os.OpenFile(b.path("old"), os.O_WRONLY, 0)
	b.must(err)
	entry, err := b.tree.Entry(t.Context(), "/workspace/old")
	b.must(err)
	entry.Path = "/workspace/new"
	b.apply(remove("/workspace/old"), entry)
	if got := onDisk(t, b.dir)["new"]; got != "file 0644 "+brief([]byte(text)) {
		t.Errorf("the new name has %s", got)
	}
	if fs.calls.Load() == 0 {
		t.Error("nothing was cloned")
	}
	_, err = f.WriteString("mine")
	b.must(err)
	b.must(f.Close())
	b.settle()
	if got := onDisk(t, b.dir)["new"]; got != "file 0644 "+brief([]byte(text)) {
		t.Errorf("the new name has %s", got)
	}
}
