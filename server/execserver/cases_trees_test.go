package execserver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// churn creates, renames and deletes files in dir until stop, some at a time so that
// others have a processor too.
func churn(t *testing.T, dir string, n int) (stop func()) {
	t.Helper()
	ended, done := make(chan struct{}), make(chan struct{})
	go func() { // stop waits for it
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i = (i + 1) % n {
			if i%16 == 0 {
				select {
				case <-ended:
					return
				case <-tick.C:
				}
			}
			a, b := filepath.Join(dir, fmt.Sprintf("a%d", i)), filepath.Join(dir, fmt.Sprintf("b%d", i))
			err := errors.Join(os.WriteFile(a, []byte("x"), 0o644), os.Rename(a, b))
			if i > 0 {
				err = errors.Join(err, os.Remove(filepath.Join(dir, fmt.Sprintf("b%d", i-1))))
			}
			if i == n-1 {
				err = errors.Join(err, os.Remove(b))
			}
			if err != nil {
				return // the directory was removed, which is part of the case
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-done
	})
}

// TestC030: listing a directory that is changing.
func TestC030(t *testing.T) {
	t.Parallel()
	url, base := serve(t), privateDir(t)
	c, dir := dial(t, url), filepath.Join(base, "d")
	mustFile(t, base, "mkdir d")
	for i := range 50 {
		mustFile(t, dir, fmt.Sprintf("write keep%d x", i))
	}
	stop := churn(t, dir, 2000)
	defer stop()
	uri := fileURI(dir)
	for i := range 200 / fewer {
		kept := make(map[string]int)
		for _, e := range c.list(uri) {
			if strings.HasPrefix(e.FileName, "keep") {
				kept[e.FileName]++
			}
		}
		if len(kept) != 50 {
			t.Fatalf("listing %d has %d of the files that stay", i, len(kept))
		}
		for name, n := range kept {
			if n != 1 {
				t.Errorf("listing %d has %s %d times", i, name, n)
			}
		}
	}
	copied := c.call("fs/copy", object{"sourcePath": uri, "destinationPath": fileURI(base) + "/copy", "recursive": true})
	for i := range 50 {
		if copied.Error == nil { // it may say that a file went away
			mustFile(t, base, fmt.Sprintf(`file copy/keep%d "x"`, i))
		}
	}
	eventually(t, "the removal of a tree that changes", func() bool {
		c.call("fs/remove", object{"path": uri, "recursive": true}) // may lose a race, and is repeated
		_, err := os.Lstat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
	stop()
	c.refused("fs/readDirectory", object{"path": uri}, -32004)

	many := filepath.Join(base, "many")
	if err := os.Mkdir(many, 0o755); err != nil {
		t.Fatal(err)
	}
	const entries = 100_000 / fewer
	for i := range entries {
		// One system call a file.
		if err := syscall.Mknod(filepath.Join(many, fmt.Sprintf("f%06d", i)), syscall.S_IFREG|0o644, 0); err != nil {
			t.Fatal(err)
		}
	}
	listing := c.send("fs/readDirectory", object{"path": fileURI(many)})
	c.awaitWithin(slack*time.Second, c.send("fs/getMetadata", object{"path": fileURI(base)}))
	f := c.await(listing)
	if f.Error != nil {
		t.Fatal(f.Error)
	}
	if n := strings.Count(string(f.Result), `"fileName":`); n != entries {
		t.Errorf("the large directory is listed with %d entries", n)
	}
}

// TestC031: overwriting changes what the file is.
func TestC031(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	uri := fileURI(dir)
	mustFile(t, dir, "write s.sh old", "chmod s.sh 755", "write key old", "chmod key 600", "mkdir data", "write data/real old",
		"symlink data/real link", "write h1 old", "hardlink h1 h2")
	c.mustWriteFile(uri+"/s.sh", "#!/bin/sh\necho ran\n")
	c.mustWriteFile(uri+"/key", "secret")
	c.mustWriteFile(uri+"/link", "new")
	c.mustWriteFile(uri+"/h1", "new")
	c.mustWriteFile(uri+"/fresh", "new")
	mustFile(t, dir, "mode s.sh 755", "mode key 600", `file key "secret"`, "link link data/real", `file data/real "new"`, `file h1 "new"`)
	if h := c.run("p1", dir, []string{"./s.sh"}, nil); string(h.output("")) != "ran\n" || h.exitCode != 0 {
		t.Errorf("s.sh: output %q, exit code %d", h.output(""), h.exitCode)
	}
	// Hard links either still share their content, or the documents say they do not.
	if shared, err := os.ReadFile(filepath.Join(dir, "h2")); err != nil || string(shared) != "new" && string(shared) != "old" {
		t.Errorf("h2 holds %q, %v", shared, err)
	}
	mustFile(t, dir, "write reference x")
	want, err := os.Stat(filepath.Join(dir, "reference")) // made with 0644 at most
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.Stat(filepath.Join(dir, "fresh")); err != nil || got.Mode()&want.Mode() != want.Mode() || got.Mode()&0o111 != 0 {
		t.Errorf("a new file has mode %v, %v", got.Mode(), err)
	}
	for _, d := range []string{dir, filepath.Join(dir, "data")} {
		names, err := os.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			switch name.Name() {
			case "s.sh", "key", "data", "link", "real", "h1", "h2", "fresh", "reference":
			default:
				t.Errorf("%s is left in %s", name.Name(), d)
			}
		}
	}

	// Readers see old or new, never a mix.
	texts := []string{strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<20)}
	c.mustWriteFile(uri+"/swap", texts[0])
	var requests []string
	for i := range 40 / fewer {
		requests = append(requests, c.send("fs/writeFile", object{"path": uri + "/swap", "dataBase64": []byte(texts[i%2])}))
	}
	for range 200 / fewer {
		got, err := os.ReadFile(filepath.Join(dir, "swap"))
		if err != nil || string(got) != texts[0] && string(got) != texts[1] {
			t.Fatalf("a reader sees %d bytes of a mix, %v", len(got), err)
		}
	}
	for _, id := range requests {
		if f := c.await(id); f.Error != nil {
			t.Error(f.Error)
		}
	}
}

// TestC032: copy into itself, remove through a link.
func TestC032(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	mustFile(t, dir, "mkdir a/sub", "write a/x x", "symlink a lnk")
	uri := fileURI(dir)
	for _, to := range []string{"/a/b", "/a", "/lnk/b", "/a/x/y", "/a/new/y"} {
		c.refused("fs/copy", object{"sourcePath": uri + "/a", "destinationPath": uri + to, "recursive": true})
	}
	c.refused("fs/copy", object{"sourcePath": uri + "/a", "destinationPath": uri + "/b", "recursive": false}, -32600)
	if got := c.list(uri + "/a"); len(got) != 2 {
		t.Errorf("a has changed: %+v", got)
	}
	mustFile(t, dir, `file a/x "x"`, "absent b")
	c.must("fs/remove", object{"path": uri + "/lnk", "recursive": true}, nil)
	mustFile(t, dir, "absent lnk", `file a/x "x"`)
	c.refused("fs/remove", object{"path": uri + "/a", "recursive": false}, -32603)
	mustFile(t, dir, `file a/x "x"`)
	c.must("fs/remove", object{"path": uri + "/missing", "force": true}, nil)
	c.refused("fs/remove", object{"path": uri + "/missing", "force": false}, -32004)
}
