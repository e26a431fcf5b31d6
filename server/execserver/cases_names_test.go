package execserver_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// encodeName is a name as a URI has it: everything but plain letters in escapes.
func encodeName(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func (c *client) writeFile(uri, text string) *frame {
	c.t.Helper()
	return c.call("fs/writeFile", object{"path": uri, "dataBase64": base64.StdEncoding.EncodeToString([]byte(text))})
}

func (c *client) mustWriteFile(uri, text string) {
	c.t.Helper()
	if f := c.writeFile(uri, text); f.Error != nil {
		c.t.Fatalf("write %s: %v", uri, f.Error)
	}
}

func (c *client) mustReadFile(uri string) string {
	c.t.Helper()
	var result struct{ DataBase64 []byte }
	c.must("fs/readFile", object{"path": uri}, &result)
	return string(result.DataBase64)
}

// entry is one of fs/readDirectory.
type entry struct {
	FileName            string
	Path                string
	IsDirectory, IsFile bool
}

func (c *client) list(uri string) []entry {
	c.t.Helper()
	var result struct{ Entries []entry }
	c.must("fs/readDirectory", object{"path": uri}, &result)
	return result.Entries
}

func (c *client) canonicalize(uri string) string {
	c.t.Helper()
	var result struct{ Path string }
	c.must("fs/canonicalize", object{"path": uri}, &result)
	return result.Path
}

// metadata is the result of fs/getMetadata.
type metadata struct {
	IsDirectory, IsFile, IsSymlink bool
	Size                           int64
}

func (c *client) stat(uri string) metadata {
	c.t.Helper()
	var result metadata
	c.must("fs/getMetadata", object{"path": uri}, &result)
	return result
}

// TestC026: file URIs and special characters.
func TestC026(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	uri := fileURI(dir)
	names := []string{
		"a b", "100%", "%41", "a%2Fb", "a#b", "a?b", "a+b", "a;b", "\u00e9", "e\u0301", "中文", `\`, `"`, "\n", "...",
	}
	for i, name := range names {
		encoded, text := uri+"/"+encodeName(name), fmt.Sprint(i)
		c.mustWriteFile(encoded, text)
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%q: on disk %q, %v", name, got, err)
		}
		if got := c.mustReadFile(encoded); got != text {
			t.Errorf("%q: read %q", name, got)
		}
		if got := c.mustReadFile(c.canonicalize(encoded)); got != text {
			t.Errorf("%q: read %q by its canonical URI %s", name, got, c.canonicalize(encoded))
		}
	}
	var listed []string
	for _, e := range c.list(uri) {
		listed = append(listed, e.FileName)
	}
	slices.Sort(listed)
	slices.Sort(names)
	if !slices.Equal(listed, names) {
		t.Errorf("listed %q, want %q", listed, names)
	}

	mustFile(t, dir, "write a kept")
	for _, raw := range []string{
		uri + "/a#b", uri + "/a?b", uri + "/100%", uri + "/%zz", uri + "/a%00b", uri + "/x%2Fy", dir + "/a", "http://localhost" + dir + "/a", "",
		// The spec has these two answered otherwise: -32600, and as /a.
		"file://otherhost/x", "file:a",
	} {
		c.refused("fs/readFile", object{"path": raw}, -32602)
		c.mustRefuse(c.writeFile(raw, "changed"), "write "+raw, -32602)
	}
	for _, same := range []string{"file://localhost" + dir + "/a", "FILE://" + dir + "/a"} {
		read, write := c.call("fs/readFile", object{"path": same}), c.writeFile(same, "kept")
		if (read.Error == nil) != (write.Error == nil) {
			t.Errorf("%s is read with %v and written with %v", same, read.Error, write.Error)
		}
	}
	mustFile(t, dir, `file a "kept"`)
}

// TestC033: names at the length limit.
func TestC033(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	uri := fileURI(dir)
	for _, name := range []string{
		strings.Repeat("n", 240), strings.Repeat("n", 243), strings.Repeat("n", 255), strings.Repeat("é", 127),
	} {
		path := uri + "/" + encodeName(name)
		c.mustWriteFile(path, "new")
		c.mustWriteFile(path, "again")
		copied := uri + "/" + encodeName("c"+name[:len(name)-2])
		c.must("fs/copy", object{"sourcePath": path, "destinationPath": copied, "recursive": false}, nil)
		if c.mustReadFile(path) != "again" || c.mustReadFile(copied) != "again" {
			t.Errorf("%d bytes: other content", len(name))
		}
		for _, p := range []string{path, copied} {
			c.must("fs/remove", object{"path": p}, nil)
		}
	}
	mustFile(t, dir, "write short x")
	for _, name := range []string{strings.Repeat("n", 256), strings.Repeat("é", 128)} {
		path := uri + "/" + encodeName(name)
		failure := c.mustRefuse(c.writeFile(path, "x"), "write", -32603)
		mustContain(t, failure, "name too long")
		c.refused("fs/copy", object{"sourcePath": uri + "/short", "destinationPath": path, "recursive": false}, -32603)
		c.refused("fs/remove", object{"path": path}, -32603)
	}
	// 4090 bytes of path in all.
	deep := dir
	for 4090-len(deep) > 1 {
		deep += "/" + strings.Repeat("d", min(200, 4090-len(deep)-1))
	}
	c.must("fs/createDirectory", object{"path": fileURI(filepath.Dir(deep))}, nil)
	c.mustWriteFile(fileURI(deep), "deep")
	c.mustWriteFile(fileURI(deep), "deeper")
	if got := c.mustReadFile(fileURI(deep)); got != "deeper" {
		t.Errorf("a path of %d bytes holds %q", len(deep), got)
	}
	c.must("fs/remove", object{"path": fileURI(deep)}, nil)
	c.must("fs/remove", object{"path": uri + "/" + strings.Repeat("d", 200)}, nil)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestC034: a failed write reported as done, names that are not UTF-8.
func TestC034(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	uri := fileURI(dir)
	old := strings.Repeat("o", 100)
	mustFile(t, dir, `write old "`+old+`"`, "chmod old 666", "mkdir sealed 555", "mkdir open 777", `write open/old "`+old+`"`, "chmod open/old 666")
	srv := startServer(t, serverOptions{nobody: true, wrap: []string{"sh", "-c", `ulimit -f 8; exec "$0"`}})
	c := dial(t, srv.url)
	c.mustRefuse(c.writeFile("file:///dev/full", "x"), "write to /dev/full")
	big := strings.Repeat("b", 100_000)
	for _, name := range []string{"/old", "/open/old", "/open/new"} {
		c.mustRefuse(c.writeFile(uri+name, big), "write beyond the limit to "+name)
	}
	mustFile(t, dir, `file open/old "`+old+`"`) // the other could only be written in place
	c.mustRefuse(c.writeFile(uri+"/sealed/new", "x"), "write into a sealed directory", -32600)
	if entries, err := os.ReadDir(filepath.Join(dir, "open")); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	c.alive(srv.url)

	dir = privateDir(t)
	uri = fileURI(dir)
	mustFile(t, dir, `write "a\xff" one`, `write "a\xfe" two`, "write other x")
	entries := c.list(uri)
	if len(entries) != 3 || !slices.ContainsFunc(entries, func(e entry) bool { return e.FileName == "other" }) {
		t.Errorf("listed %+v", entries)
	}
	for name, want := range map[string]string{"a%FF": "one", "a%FE": "two"} {
		if got := c.mustReadFile(uri + "/" + name); got != want {
			t.Errorf("%s holds %q", name, got)
		}
		if got := c.canonicalize(uri + "/" + name); got != uri+"/"+name {
			t.Errorf("%s is %s", name, got)
		}
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.Path == uri+"/"+name }) {
			t.Errorf("%s is not among the listed URIs %+v", name, entries)
		}
	}
	if bytes.Count(c.call("fs/readDirectory", object{"path": uri}).raw, []byte("other")) != 1 {
		t.Error("another file is missing")
	}
}
