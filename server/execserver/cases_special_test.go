package execserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// blocks reads a file through a block stream.
func (c *client) blocks(uri string, size int) string {
	c.t.Helper()
	c.must("fs/open", object{"handleId": "blocks", "path": uri}, nil)
	var all []byte
	for {
		var block struct {
			Chunk []byte
			EOF   bool
		}
		c.must("fs/readBlock", object{"handleId": "blocks", "offset": len(all), "len": size}, &block)
		all = append(all, block.Chunk...)
		if block.EOF {
			break
		}
		if len(block.Chunk) == 0 {
			c.t.Fatal("an empty block that is not the end")
		}
	}
	c.must("fs/close", object{"handleId": "blocks"}, nil)
	return string(all)
}

// TestC027: kernel files read as empty.
func TestC027(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	const status = "file:///proc/self/status"
	for how, text := range map[string]string{"read whole": c.mustReadFile(status), "read in blocks": c.blocks(status, 100)} {
		if !strings.HasPrefix(text, "Name:") || !strings.HasSuffix(text, "\n") {
			t.Errorf("%s: %q", how, text)
		}
	}
	c.must("fs/copy", object{"sourcePath": status, "destinationPath": fileURI(dir) + "/c", "recursive": false}, nil)
	if text, err := os.ReadFile(filepath.Join(dir, "c")); err != nil || !strings.HasPrefix(string(text), "Name:") {
		t.Errorf("copied %q, %v", text, err)
	}
	if !c.stat(status).IsFile {
		t.Error("it is not a file")
	}
}

// TestC028: files that never end or never start.
func TestC028(t *testing.T) {
	t.Parallel()
	srv, dir := startServer(t, serverOptions{}), privateDir(t)
	mustFile(t, dir, "fifo f", "socket s", "mkdir tree", "fifo tree/f", "write tree/a x")
	uri := fileURI(dir)
	idle := dial(t, srv.url)
	idle.stat(uri)
	before := openFiles(t, srv.pid)
	forgetMost(t, srv.pid)
	memory, _ := resident(t, srv.pid)

	c := dial(t, srv.url)
	if m := c.stat(uri + "/f"); m.IsFile || m.IsDirectory {
		t.Errorf("the FIFO is %+v", m)
	}
	requests := map[string]string{
		"read a FIFO":        c.send("fs/readFile", object{"path": uri + "/f"}),
		"open a FIFO":        c.send("fs/open", object{"handleId": "h", "path": uri + "/f"}),
		"replace a FIFO":     c.send("fs/open", object{"handleId": "g", "path": uri + "/f", "mode": "replace"}),
		"write a FIFO":       c.send("fs/writeFile", object{"path": uri + "/f", "dataBase64": "eA=="}),
		"copy a FIFO":        c.send("fs/copy", object{"sourcePath": uri + "/f", "destinationPath": uri + "/f2", "recursive": false}),
		"read without end":   c.send("fs/readFile", object{"path": "file:///dev/zero"}),
		"read a socket":      c.send("fs/readFile", object{"path": uri + "/s"}),
		"copy a socket":      c.send("fs/copy", object{"sourcePath": uri + "/s", "destinationPath": uri + "/s2", "recursive": false}),
		"write into nothing": c.send("fs/writeFile", object{"path": uri + "/s", "dataBase64": "eA=="}),
	}
	tree := c.send("fs/copy", object{"sourcePath": uri + "/tree", "destinationPath": uri + "/tree2", "recursive": true})
	c.awaitWithin(slack*time.Second, c.send("fs/getMetadata", object{"path": uri}))
	for what, id := range requests {
		c.mustRefuse(c.awaitWithin(slack*3*time.Second, id), what)
	}
	if f := c.awaitWithin(slack*3*time.Second, tree); f.Error == nil {
		mustFile(t, dir, `file tree2/a "x"`) // the FIFO is left out then
	}
	c.must("fs/remove", object{"path": uri + "/f"}, nil)
	mustFile(t, dir, "absent f")
	c.drop()
	eventually(t, "the descriptors", func() bool { return openFiles(t, srv.pid) <= before })
	if _, most := resident(t, srv.pid); most-memory > memoryFactor*64<<20 {
		t.Errorf("memory grew by %d MiB", (most-memory)>>20)
	}
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestC029: symlink loops and dangling links.
func TestC029(t *testing.T) {
	t.Parallel()
	c, base := dial(t, serve(t)), privateDir(t)
	dir := filepath.Join(base, "w")
	mustFile(t, base, "mkdir w/d", "write w/ok x", "write w/d/x x",
		"symlink l2 w/l1", "symlink l1 w/l2", "symlink . w/up", "symlink nothing w/gone", "symlink d w/ld")
	uri := fileURI(dir)
	names := make(map[string]entry)
	for _, e := range c.list(uri) {
		names[e.FileName] = e
	}
	for _, name := range []string{"ok", "d", "ld", "up"} {
		if _, ok := names[name]; !ok {
			t.Errorf("%s is not listed", name)
		}
	}
	if !names["ld"].IsDirectory {
		t.Error("ld is not listed as a directory")
	}
	if m := c.stat(uri + "/ld"); !m.IsDirectory || !m.IsSymlink {
		t.Errorf("ld is %+v", m)
	}
	for name, code := range map[string]int{"l1": -32603, "gone": -32004} {
		c.refused("fs/getMetadata", object{"path": uri + "/" + name}, code)
		c.refused("fs/canonicalize", object{"path": uri + "/" + name}, code)
	}
	if got := c.canonicalize(uri + "/ld"); got != uri+"/d" {
		t.Errorf("ld is %s", got)
	}
	c.must("fs/copy", object{"sourcePath": uri, "destinationPath": fileURI(base) + "/copy", "recursive": true}, nil)
	mustFile(t, base, "link copy/l1 l2", "link copy/l2 l1", "link copy/up .", "link copy/gone nothing", "link copy/ld d", `file copy/ok "x"`, `file copy/d/x "x"`)

	var walk struct {
		Entries   []struct{ Path, Kind string }
		Truncated bool
	}
	c.must("fs/walk", object{"path": uri, "options": object{"maxDepth": 64, "maxDirectories": 10000, "maxEntries": 50000, "followDirectorySymlinks": true}}, &walk)
	files := 0
	for _, e := range walk.Entries {
		if strings.HasSuffix(e.Path, "/x") {
			files++
		}
	}
	if files != 1 || walk.Truncated {
		t.Errorf("the walk visits d %d times: %+v", files, walk)
	}
}
