package disk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// calls counts what the system is asked about files: those of a test, whose names begin with
// "file", objects, and what is open.
type calls struct {
	mu sync.Mutex
	n  map[string]int
}

func countCalls(t *testing.T) *calls {
	c := &calls{n: map[string]int{}}
	disk.OnCall(func(call, name string) {
		switch base := filepath.Base(name); {
		case name == "":
			name = "open file"
		case strings.HasPrefix(base, "file"):
			name = "file"
		case strings.HasPrefix(base, ".wsd-out-"):
			name = "outgoing file"
		case len(name) == 16 && strings.Trim(name, "0123456789abcdef") == "":
			name = "object"
		default:
			return // a directory, which has many of them
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n[call+" "+name]++
	})
	t.Cleanup(func() { disk.OnCall(nil) })
	return c
}

// take returns the numbers since the last time.
func (c *calls) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.n
	c.n = map[string]int{}
	return out
}

// want wants so many calls since the last time. An open directory has no name either: few are looked at
// besides.
func (c *calls) want(t *testing.T, what string, want map[string]int) {
	t.Helper()
	const few = 20
	got := c.take()
	if of := got["stat open file"] - want["stat open file"]; of > 0 && of <= few {
		if got["stat open file"] -= of; got["stat open file"] == 0 {
			delete(got, "stat open file")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A file that is new is looked at twice and opened once, one that is as it was looked at
// once; an object becomes a file with two looks, and is not opened. A file that the workspace itself has
// written is looked at once more when the system reports it, and not at all after that.
func TestCallsPerFile(t *testing.T) {
	const dirs, each = 4, 50
	both(t, func(t *testing.T, b *bench) {
		watched := b.ws.Watched() >= 0
		c := countCalls(t)
		want := func(what string, want map[string]int) {
			t.Helper()
			total := map[string]int{}
			for call, times := range want {
				total[call] = dirs * each * times
			}
			c.want(t, what, total)
		}
		old := map[string]int{}
		if !watched {
			old["stat file"] = 1
		}
		// rest settles until the times of the files tell that nothing has changed.
		rest := func() {
			for {
				b.settle()
				if got := c.take(); got["open file"] == 0 && got["stat open file"] < each {
					return
				}
			}
		}
		for i := range dirs * each {
			b.write(fmt.Sprintf("here%d/file%d", i%dirs, i), fmt.Sprint("here ", i))
		}
		b.settle()
		want("new files", map[string]int{"stat file": 1, "open file": 1, "stat open file": 1})
		rest()
		b.settle()
		want("nothing", old)

		var entries []tree.Entry
		for i := range dirs {
			entries = append(entries, folder(fmt.Sprintf("/workspace/there%d", i), 0o755))
		}
		for i := range dirs * each {
			entries = append(entries, b.file(fmt.Sprintf("/workspace/there%d/file%d", i%dirs, i), fmt.Sprint("there ", i), 0o644))
		}
		c.take()
		b.apply(entries...)
		apply := map[string]int{"stat object": 1, "stat file": 1}
		if !watched {
			apply["stat file"]++ // all was looked at before
		}
		want("entries", apply)
		b.settle()
		if old["stat file"] = 1; !watched {
			old["stat file"]++
		}
		want("settled after entries", old)
		b.settle()
		if old["stat file"]--; watched {
			delete(old, "stat file")
		} else {
			old["stat file"] = 2
		}
		want("nothing after entries", old)
	})
}

// A file that is removed is looked at once by its name, and opened and looked at once as it leaves. All but the
// last ones are looked at once more when they are closed.
func TestCallsPerRemovedFile(t *testing.T) {
	const dirs, each = 4, 50
	b := newBench(t, disk.Config{Watch: true, Parallel: 2})
	b.ws.Grace(time.Hour)
	for i := range dirs * each {
		b.write(fmt.Sprintf("d/%d/file%d", i%dirs, i), "text")
	}
	quiet(b)
	c := countCalls(t)
	b.apply(remove("/workspace/d"))
	const files, last = dirs * each, 64
	c.want(t, "removed", map[string]int{"stat file": files, "open outgoing file": files, "stat open file": files + files - last})
	b.want(map[string]string{})
}

// An object that is not what it was does not become a file: the content is copied, or missing
// until somebody sends it again.
func TestObjectThatIsAnother(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, object string){
		"linked": func(t *testing.T, object string) {
			if err := os.Link(object, filepath.Join(t.TempDir(), "second")); err != nil {
				t.Fatal(err)
			}
		},
		"cut": func(t *testing.T, object string) {
			if err := os.Truncate(object, 3); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(t *testing.T, object string) {
			secret := filepath.Join(t.TempDir(), "secret")
			for _, err := range []error{os.WriteFile(secret, []byte("content"), 0o600), os.Remove(object), os.Symlink(secret, object)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() {
				if info, err := os.Stat(secret); err != nil || info.Mode() != 0o600 {
					t.Errorf("what a link leads to has the mode %v, %v", info.Mode(), err)
				}
			})
		},
		"a pipe": func(t *testing.T, object string) {
			for _, err := range []error{os.Remove(object), unix.Mkfifo(object, 0o600)} {
				if err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, disk.Config{})
			e := b.file("/workspace/f", "content", 0o644)
			found, err := filepath.Glob(filepath.Join(b.objects.Path(), "*"))
			if err != nil || len(found) != 1 {
				t.Fatalf("objects %q, %v", found, err)
			}
			change(t, found[0])
			_, err = b.ws.Apply(t.Context(), seq([]tree.Entry{e}), tree.SkipSame, nil)
			info, statErr := os.Lstat(b.path("f"))
			switch {
			case name == "linked":
				if err != nil || onDisk(t, b.dir)["f"] != "file 0644 content" {
					t.Errorf("the directory has %q, %v", onDisk(t, b.dir), err)
				}
			case statErr == nil:
				t.Errorf("there is a %v", info.Mode())
			case err == nil:
				t.Error("nothing is said")
			}
			b.parts("content") // it is sent again
			b.settle()
			b.want(map[string]string{"f": "file 0644 content"})
		})
	}
}
