package fs_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs"
)

// fixture makes the tree that the transcripts below talk of. What they say was
// provoked from codex 0.171.0 with the same tree.
func fixture(t *testing.T) *client {
	c := newClient(t, fs.Config{})
	c.put("a", "a\n")
	c.put("d/x", "hi\n")
	c.mkdir("d/sub")
	c.link("d", "ld")
	c.link("gone", "dang")
	c.link("a", "la")
	c.link("l2", "l1")
	c.link("l1", "l2")
	if err := unix.Mkfifo(c.path("f"), 0o666); err != nil {
		t.Fatal(err)
	}
	makeSocket(t, c.path("sock"))
	return c
}

// makeSocket leaves a socket at path, which may be longer than an address can be.
func makeSocket(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFSOCK|0o666, 0); err != nil {
		t.Fatal(err)
	}
}

const (
	notFound = "-32004 No such file or directory (os error 2)"
	notDir   = "-32603 Not a directory (os error 20)"
	exists   = "-32603 File exists (os error 17)"
	isDir    = "-32603 Is a directory (os error 21)"
	loop     = "-32603 Symbolic link loop (os error 40)"
	noDevice = "-32603 No such device or address (os error 6)"
	isLink   = "-32600 path contains a symbolic link"
)

func TestReadFile(t *testing.T) {
	c := fixture(t)
	for _, tt := range []struct {
		path         string
		follow, dont string
	}{
		{"$U/a", `{"dataBase64":"YQo="}`, `{"dataBase64":"YQo="}`},
		{"$U/a/", `{"dataBase64":"YQo="}`, `{"dataBase64":"YQo="}`},
		{"$U/la", `{"dataBase64":"YQo="}`, loop},
		{"$U/ld/x", `{"dataBase64":"aGkK"}`, notDir},
		{"$U/d", "-32600 path `$W/d` is not a file", "-32600 path `$W/d` is not a file"},
		{"$U/f", "-32600 path `$W/f` is not a file", "-32600 path `$W/f` is not a file"},
		{"file:///dev/zero", "-32600 path `/dev/zero` is not a file", "-32600 path `/dev/zero` is not a file"},
		{"$U/sock", noDevice, noDevice},
		{"$U/dang", notFound, loop},
		{"$U/l1", loop, loop},
		{"$U/missing", notFound, notFound},
		{"$U/a/b", notDir, notDir},
	} {
		c.want(tt.follow, "fs/readFile", object{"path": tt.path})
		c.want(tt.follow, "fs/readFile", object{"path": tt.path, "followSymlinks": nil, "sandbox": nil})
		c.want(tt.dont, "fs/readFile", object{"path": tt.path, "followSymlinks": false})
	}
	if err := os.Truncate(c.path("a"), 512<<20+1); err != nil {
		t.Fatal(err)
	}
	c.want("-32600 file is too large to read: limit is 536870912 bytes", "fs/readFile", object{"path": "$U/a"})
}

func TestWriteFile(t *testing.T) {
	c := fixture(t)
	for _, tt := range []struct {
		path         string
		follow, dont string
	}{
		{"$U/a", `{}`, `{}`},
		{"$U/new", `{}`, `{}`},
		{"$U/la", `{}`, loop},
		{"$U/ld/x", `{}`, notDir},
		{"$U/d", isDir, isDir},
		{"$U/ld", isDir, loop},
		{"$U/f", noDevice, noDevice},
		{"$U/sock", noDevice, noDevice},
		{"$U/l1", loop, loop},
		{"$U/no/parent", notFound, notFound},
		{"$U/a/b", notDir, notDir},
		{"file:///dev/null", `{}`, `{}`},
		{"file:///", isDir, isDir},
	} {
		c.want(tt.follow, "fs/writeFile", object{"path": tt.path, "dataBase64": "cQ=="})
		c.want(tt.dont, "fs/writeFile", object{"path": tt.path, "dataBase64": "cQ==", "followSymlinks": false})
	}
	c.want(`{}`, "fs/writeFile", object{"path": "$U/dang", "dataBase64": ""})
	for _, name := range []string{"a", "new", "d/x"} {
		if got := c.content(name); got != "q" {
			t.Errorf("%s has %q", name, got)
		}
	}
	c.want("-32600 fs/writeFile requires valid base64 dataBase64: Invalid symbol 33, offset 0.",
		"fs/writeFile", object{"path": "$U/a", "dataBase64": "!!"})
	c.want("-32600 fs/writeFile requires valid base64 dataBase64: Invalid padding",
		"fs/writeFile", object{"path": "$U/a", "dataBase64": "cQ"})
	c.want("-32602 *", "fs/writeFile", object{"path": "$U/a"})
	c.want("-32600 mode must be between 0 and 4095 (07777)", "fs/writeFile", object{"path": "$U/a", "dataBase64": "", "mode": 0o10000})
	c.want(`{}`, "fs/writeFile", object{"path": "$U/tool", "dataBase64": "", "mode": 0o700})
	if info, err := os.Stat(c.path("tool")); err != nil || info.Mode() != 0o700 {
		t.Errorf("mode of a file created with one: %v, %v", info, err)
	}
	c.wantFiles("", "a d/ d/sub/ d/x dang->gone f gone l1->l2 l2->l1 la->a ld->d new sock tool")
}

func TestCreateDirectory(t *testing.T) {
	for _, tt := range []struct {
		path                          string
		recursive, plain              string
		noFollowRecursive, noFollowIt string
	}{
		{"$U/d", `{}`, exists, `{}`, exists},
		{"$U/ld", `{}`, exists, notDir, exists},
		{"$U/dang", exists, exists, notDir, exists},
		{"$U/a", exists, exists, notDir, exists},
		{"$U/la", exists, exists, notDir, exists},
		{"$U/ld/n", `{}`, `{}`, notDir, notDir},
		{"$U/new/x", `{}`, notFound, `{}`, notFound},
		{"$U/new/", `{}`, `{}`, `{}`, `{}`},
		{"$U/dang/x", exists, notFound, notDir, notDir},
		{"$U/a/x", notDir, notDir, notDir, notDir},
		{"file:///", `{}`, exists, `{}`, exists},
	} {
		fixture(t).want(tt.recursive, "fs/createDirectory", object{"path": tt.path})
		fixture(t).want(tt.plain, "fs/createDirectory", object{"path": tt.path, "recursive": false})
		fixture(t).want(tt.noFollowRecursive, "fs/createDirectory", object{"path": tt.path, "followSymlinks": false})
		fixture(t).want(tt.noFollowIt, "fs/createDirectory", object{"path": tt.path, "recursive": false, "followSymlinks": false})
	}
}

func TestGetMetadata(t *testing.T) {
	c := fixture(t)
	kinds := func(dir, file, link bool, size string) string {
		is := map[bool]string{true: "true", false: "false"}
		return `{"isDirectory":` + is[dir] + `,"isFile":` + is[file] + `,"isSymlink":` + is[link] + `,"size":` + size + `,"createdAtMs":*}`
	}
	for _, tt := range []struct{ path, follow, dont string }{
		{"$U/a", kinds(false, true, false, "2"), kinds(false, true, false, "2")},
		{"$U/la", kinds(false, true, true, "2"), isLink},
		{"$U/f", kinds(false, false, false, "0"), kinds(false, false, false, "0")},
		{"$U/sock", kinds(false, false, false, "0"), kinds(false, false, false, "0")},
		{"$U/dang", notFound, isLink},
		{"$U/l1", loop, isLink},
		{"$U/ld/x", kinds(false, true, false, "3"), notDir},
		{"$U/missing", notFound, notFound},
		{"$U/a/x", notDir, notDir},
		{"$U/missing/x", notFound, notFound},
	} {
		c.want(tt.follow, "fs/getMetadata", object{"path": tt.path})
		c.want(tt.dont, "fs/getMetadata", object{"path": tt.path, "followSymlinks": false})
	}
	for _, path := range []string{"$U/d", "$U/ld", "file:///"} {
		got := c.call("fs/getMetadata", object{"path": path})
		if !strings.HasPrefix(got, `{"isDirectory":true,"isFile":false,"isSymlink":`+map[bool]string{true: "true", false: "false"}[path == "$U/ld"]) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if err := unix.Chmod(c.path("a"), 0o4751); err != nil {
		t.Fatal(err)
	}
	info, _ := os.Stat(c.path("a"))
	m := result[struct {
		Mode                      uint32
		CreatedAtMs, ModifiedAtMs int64
		Hash                      string
	}](c, "fs/getMetadata", object{"path": "$U/a", "includeHash": true})
	if m.Mode != 0o4751 || m.ModifiedAtMs != info.ModTime().UnixMilli() || m.CreatedAtMs > m.ModifiedAtMs {
		t.Errorf("got %+v, modified at %d", m, info.ModTime().UnixMilli())
	}
	if m.Hash != "sha256:87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7" {
		t.Errorf("hash %s", m.Hash)
	}
}

func TestCanonicalize(t *testing.T) {
	c := fixture(t)
	c.put("d/100% é", "")
	for path, want := range map[string]string{
		"$U/ld/x": `{"path":"$U/d/x"}`, "$U/la": `{"path":"$U/a"}`, "$U/ld/../d/./sub/": `{"path":"$U/d/sub"}`,
		"$U/dang": notFound, "$U/missing": notFound, "$U/l1": loop, "$U/a/x": notDir,
		"$U/ld/100%25%20é": `{"path":"$U/d/100%25%20%C3%A9"}`, "file:///": `{"path":"file:///"}`,
	} {
		c.want(want, "fs/canonicalize", object{"path": path})
	}
}

func TestReadDirectory(t *testing.T) {
	c := fixture(t)
	type entry struct {
		FileName            string
		IsDirectory, IsFile bool
		Path                string
		Metadata            *struct{ IsSymlink, IsFile bool }
	}
	list := func(params object) map[string]entry {
		t.Helper()
		out := map[string]entry{}
		for _, e := range result[struct{ Entries []entry }](c, "fs/readDirectory", params).Entries {
			out[e.FileName] = e
		}
		return out
	}
	got := list(object{"path": "$U"})
	want := map[string][2]bool{"a": {false, true}, "d": {true, false}, "la": {false, true}, "ld": {true, false}, "f": {}, "sock": {}}
	for name, kinds := range want {
		if e, ok := got[name]; !ok || e.IsDirectory != kinds[0] || e.IsFile != kinds[1] || e.Path != "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d: %v", len(got), len(want), got)
	}
	got = list(object{"path": "$U", "includeMetadata": true})
	if len(got) != len(want)+3 || got["dang"].Metadata == nil || !got["dang"].Metadata.IsSymlink || !got["la"].IsFile || !got["la"].Metadata.IsSymlink {
		t.Errorf("with metadata: %v", got)
	}
	c.want(`{"entries":[]}`, "fs/readDirectory", object{"path": "$U/ld/sub"})
	for path, want := range map[string]string{"$U/a": notDir, "$U/dang": notFound, "$U/missing": notFound, "$U/a/x": notDir, "$U/l1": loop} {
		c.want(want, "fs/readDirectory", object{"path": path})
	}
}

func TestRemove(t *testing.T) {
	c := fixture(t)
	for _, tt := range []struct {
		want   string
		params object
	}{
		{`{}`, object{"path": "$U/missing"}},
		{notFound, object{"path": "$U/missing", "force": false}},
		{notDir, object{"path": "$U/a/x"}},
		{notDir, object{"path": "$U/a/x", "recursive": false}},
		{"-32603 recursive no-follow removal is unsupported", object{"path": "$U/a", "followSymlinks": false}},
		{notDir, object{"path": "$U/ld/x", "followSymlinks": false, "recursive": false}},
		{isLink, object{"path": "$U/ld", "followSymlinks": false, "recursive": false}},
		{`{}`, object{"path": "$U/missing", "followSymlinks": false, "recursive": false}},
		{notFound, object{"path": "$U/missing", "followSymlinks": false, "recursive": false, "force": false}},
		{"-32603 Directory not empty (os error 39)", object{"path": "$U/d", "recursive": false}},
		{"-32600 fs/remove does not remove the root directory", object{"path": "file:///"}},
		{`{}`, object{"path": "$U/d/sub", "recursive": false}},
		{`{}`, object{"path": "$U/ld", "recursive": true}},
		{`{}`, object{"path": "$U/la/"}},
		{`{}`, object{"path": "$U/dang", "recursive": false}},
		{`{}`, object{"path": "$U/f"}},
		{`{}`, object{"path": "$U/sock", "followSymlinks": false, "recursive": false}},
	} {
		c.want(tt.want, "fs/remove", tt.params)
	}
	c.wantFiles("", "a d/ d/x l1->l2 l2->l1")
	c.want(`{}`, "fs/remove", object{"path": "$U/d"})
	c.wantFiles("", "a l1->l2 l2->l1")
}

func TestCopy(t *testing.T) {
	c := fixture(t)
	c.link("sub", "d/ls")
	c.link("gone", "d/dang")
	c.put("z", "zz")
	c.link("z", "lz")
	chmod := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(c.path(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	mode := func(name string) os.FileMode {
		t.Helper()
		info, err := os.Stat(c.path(name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	chmod("a", 0o640)
	chmod("d/sub", 0o500)
	cp := func(want, from, to string, recursive bool) {
		t.Helper()
		c.want(want, "fs/copy", object{"sourcePath": from, "destinationPath": to, "recursive": recursive})
	}
	cp(`{}`, "$U/d", "$U/deep/copy", true)
	c.wantFiles("deep", "copy/ copy/dang->gone copy/ls->sub copy/sub/ copy/x")
	if got := mode("deep/copy/sub"); got != 0o500 {
		t.Errorf("mode of a copied directory: %v", got)
	}
	cp(exists, "$U/d", "$U/deep/copy", true) // its links exist
	cp(`{}`, "$U/d/sub", "$U/deep/copy", true)
	cp(exists, "$U/d", "$U/a", true)
	cp("-32600 fs/copy requires recursive: true when sourcePath is a directory", "$U/d", "$U/e", false)
	cp("-32602 *", "$U/d", "$U/e#f", true)
	cp(`{}`, "$U/a", "$U/lz", false) // through the link
	if c.content("z") != "a\n" || mode("z") != 0o640 {
		t.Errorf("z has %q, %v", c.content("z"), mode("z"))
	}
	cp(isDir, "$U/a", "$U/d", false)
	cp(notFound, "$U/a", "$U/no/x", false)
	cp(`{}`, "$U/a", "$U/deep/new", false)
	cp(notFound, "$U/nope", "$U/x", false)
	cp(exists, "$U/lz", "$U/a", false)
	cp(`{}`, "$U/lz", "$U/lz2", true)
	cp("-32600 fs/copy only supports regular files, directories, and symlinks", "file:///dev/null", "$U/x", false)
	cp("-32600 fs/copy only supports regular files, directories, and symlinks", "$U/f", "$U/x", true)
	cp(`{}`, "$U/a", "$U/a", false) // the original empties it
	cp(`{}`, "$U/a", "$U/la", false)
	if err := os.Link(c.path("a"), c.path("hard")); err != nil {
		t.Fatal(err)
	}
	cp(`{}`, "$U/hard", "$U/a", false)
	if c.content("a") != "a\n" {
		t.Errorf("a has %q", c.content("a"))
	}
	c.wantFiles("", "a d/ d/dang->gone d/ls->sub d/sub/ d/x dang->gone deep/ deep/copy/ deep/copy/dang->gone deep/copy/ls->sub "+
		"deep/copy/sub/ deep/copy/x deep/new f hard l1->l2 l2->l1 la->a ld->d lz->z lz2->z sock z")
}

func TestRename(t *testing.T) {
	c := fixture(t)
	mv := func(want, from, to string, more object) {
		t.Helper()
		params := object{"sourcePath": from, "destinationPath": to}
		for k, v := range more {
			params[k] = v
		}
		c.want(want, "fs/rename", params)
	}
	mv(`{}`, "$U/a", "$U/b", nil)
	mv(exists, "$U/b", "$U/d/x", object{"overwrite": false})
	mv(exists, "$U/b", "$U/dang", object{"overwrite": false})
	mv(`{}`, "$U/b", "$U/d/x", nil)
	mv(`{}`, "$U/d", "$U/e", object{"overwrite": false})
	mv(`{}`, "$U/la", "$U/lb", nil) // the link itself
	mv(notFound, "$U/a", "$U/b", nil)
	mv("-32600 Invalid argument (os error 22)", "$U/e", "$U/e/sub/e", object{"overwrite": false})
	if got := c.content("e/x"); got != "a\n" {
		t.Errorf("e/x has %q", got)
	}
	c.wantFiles("", "dang->gone e/ e/sub/ e/x f l1->l2 l2->l1 lb->a ld->d sock")
}

func TestLinks(t *testing.T) {
	c := fixture(t)
	c.want(`{}`, "fs/symlink", object{"path": "$U/new", "target": "some/where"})
	c.want(exists, "fs/symlink", object{"path": "$U/new", "target": "x"})
	c.want(`{"target":"some/where"}`, "fs/readLink", object{"path": "$U/new"})
	c.want(`{}`, "fs/symlink", object{"path": "$U/odd", "targetBase64": "Yf8="})
	c.want("{\"target\":\"a\uFFFD\",\"targetBase64\":\"Yf8=\"}", "fs/readLink", object{"path": "$U/odd"})
	c.want("-32602 fs/symlink takes either target or targetBase64", "fs/symlink", object{"path": "$U/x"})
	c.want("-32602 fs/symlink takes either target or targetBase64", "fs/symlink", object{"path": "$U/x", "target": "", "targetBase64": ""})
	c.want("-32602 the target of a link cannot contain a NUL", "fs/symlink", object{"path": "$U/x", "target": "a\x00b"})
	c.want(notFound, "fs/symlink", object{"path": "$U/no/x", "target": "a"})
	c.want("-32600 Invalid argument (os error 22)", "fs/readLink", object{"path": "$U/a"})
	c.want(notFound, "fs/readLink", object{"path": "$U/missing"})
	long := strings.Repeat("x/", 1000)
	c.want(`{}`, "fs/symlink", object{"path": "$U/long", "target": long})
	c.want(`{"target":"`+long+`"}`, "fs/readLink", object{"path": "$U/long"})
}

func TestChmod(t *testing.T) {
	c := fixture(t)
	c.want(`{}`, "fs/chmod", object{"path": "$U/la", "mode": 0o701})
	if info, err := os.Stat(c.path("a")); err != nil || info.Mode() != 0o701 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	c.want("-32600 mode must be between 0 and 4095 (07777)", "fs/chmod", object{"path": "$U/a", "mode": 0o10000})
	c.want(notFound, "fs/chmod", object{"path": "$U/dang", "mode": 0o700})
	c.want("-32602 *", "fs/chmod", object{"path": "$U/a"})
}
