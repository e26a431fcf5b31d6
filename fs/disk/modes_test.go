package disk_test

import (
	"os"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Sync 12e, 5: modes that come one after the other, with nobody else at the directory, overtake
// nothing, and the file stays the one that it is.
func TestMode5NothingIsOvertaken(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	for _, text := range []string{"text", "more"} {
		both(t, func(t *testing.T, b *bench) {
			b.write("f", "text")
			b.settle()
			was := b.inode("f")
			for i, mode := range []uint32{0o600, 0o644, 0o200, 0o644, 0, 0o200, 0o600, 0o440} {
				e := b.file("/workspace/f", text, mode)
				e.MTime = time.Unix(1_000_000_000+int64(i), 0)
				if done := b.apply(e); len(done.Overtaken) > 0 {
					t.Fatalf("mode %04o has overtaken %d versions", mode, len(done.Overtaken))
				}
				info, err := os.Lstat(b.path("f"))
				b.must(err)
				if info.Mode() != os.FileMode(mode) || !info.ModTime().Equal(e.MTime) {
					t.Errorf("mode %v of %v, want %04o of %v", info.Mode(), info.ModTime(), mode, e.MTime)
				}
				if kept := b.lost(); len(kept) > 0 {
					t.Errorf("kept: %q", kept)
				}
			}
			if text == "text" && b.inode("f") != was {
				t.Error("the file is another one")
			}
			b.settle()
			b.want(map[string]string{"f": "file 0440 " + text})
			b.wantLost()
		})
	}
}

// Sync 12e, 5: modes that the journal has are no reason, either, for a version to be kept.
func TestMode5PutOff(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	for _, mode := range []uint32{0o600, 0o200, 0} {
		both(t, func(_ *testing.T, b *bench) {
			b.write("f", "text")
			b.settle()
			b.apply(b.file("/workspace/f", "text", mode))
			b.pend(b.file("/workspace/f", "text", 0o644))
			b.settle()
			b.want(map[string]string{"f": "file 0644 text"})
			b.wantLost()
		})
	}
}

// Sync 12e, 5: a version is overtaken when it is another one than the tree had: not for its times.
func TestMode5WhatIsOvertaken(t *testing.T) {
	for _, c := range []struct {
		name    string
		command func(path string) error
		want    []string
	}{
		{"time", func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(7, 0)) }, nil},
		{"nothing but the ctime", func(path string) error { return os.Chmod(path, 0o644) }, nil},
		{"mode", func(path string) error { return os.Chmod(path, 0o640) }, []string{"f file 0640 text"}},
		{"content", func(path string) error { return os.WriteFile(path, []byte("something"), 0o644) }, []string{"f file 0644 something"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(_ *testing.T, b *bench) {
				b.write("f", "text")
				quiet(b)
				b.ws.Hook(func(op, path string) error {
					if op == "write" && path == "f" {
						return c.command(b.path("f"))
					}
					return nil
				})
				b.apply(b.file("/workspace/f", "entry", 0o600))
				b.ws.Hook(nil)
				b.want(map[string]string{"f": "file 0600 entry"})
				b.wantLost(c.want...)
			})
		})
	}
}

// Sync 12e, 4: what is settled is read in directories whose modes keep us out, and those stay.
func TestMode4ReadInShutDirectories(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	both(t, func(t *testing.T, b *bench) {
		b.write("d/e/f", "text")
		b.settle()
		b.must(os.Chmod(b.path("d/e/f"), 0o200))
		b.settle()
		b.apply(folder("/workspace/d/e", 0), folder("/workspace/d", 0o200))
		rev := b.rev()
		for range 3 {
			if _, err := b.forest.Chunk(t.Context(), tree.Sum([]byte("text")), nil); err != nil {
				t.Fatal(err)
			}
			b.settle()
		}
		if b.rev() != rev {
			t.Errorf("changes: %v", b.changed(rev))
		}
		b.modes(map[string]os.FileMode{"d": 0o200})
		b.must(os.Chmod(b.path("d"), 0o700))
		b.modes(map[string]os.FileMode{"d/e": 0})
		b.must(os.Chmod(b.path("d/e"), 0o700))
		b.modes(map[string]os.FileMode{"d/e/f": 0o200})
		b.apply(folder("/workspace/d/e", 0o755), folder("/workspace/d", 0o755), b.file("/workspace/d/e/f", "more", 0o644))
		b.want(map[string]string{"d": "dir 0755", "d/e": "dir 0755", "d/e/f": "file 0644 more"})
		b.wantLost()
	})
}

// Sync 12e, 5: reading a file whose mode keeps us out leaves the mode as it is, also by several readers at once.
func TestMode5ReadersLeaveTheMode(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	both(t, func(t *testing.T, b *bench) {
		b.write("f", "text")
		b.settle()
		b.must(os.Chmod(b.path("f"), 0o200))
		b.settle()
		rev, hash := b.rev(), tree.Sum([]byte("text"))
		errs := make(chan error)
		for range 8 {
			go func() { // waited for below
				var err error
				for i := 0; i < 50 && err == nil; i++ {
					_, err = b.forest.Chunk(t.Context(), hash, nil)
				}
				errs <- err
			}()
		}
		for range 8 {
			b.settle()
			b.must(<-errs)
		}
		b.settle()
		if info, err := os.Lstat(b.path("f")); err != nil || info.Mode() != 0o200 {
			t.Errorf("the mode is %v, %v", info.Mode(), err)
		}
		if b.rev() != rev {
			t.Errorf("changes: %v", b.changed(rev))
		}
		b.must(os.Chmod(b.path("f"), 0o600))
	})
}
