package fs_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/fs/fileuri"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// read is the content that fs/readFile gives, or its error.
func (c *client) read(uri string) string {
	c.t.Helper()
	text := c.call("fs/readFile", object{"path": uri})
	data, ok := strings.CutPrefix(text, `{"dataBase64":"`)
	if !ok {
		return text
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(data, `"}`))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

func TestC026FileURIsAndSpecialCharacters(t *testing.T) {
	c := newClient(t, fs.Config{})
	names := []string{"a b", "100%", "%41", "a%2Fb", "a#b", "a?b", "a+b", "a;b", "\u00e9", "e\u0301", "中文", `\`, `"`, "n\nl", "..."}
	for _, name := range names {
		uri := fileuri.Format(c.path(name))
		c.want(`{}`, "fs/writeFile", object{"path": uri, "dataBase64": b64(name)})
		if got := c.content(name); got != name {
			t.Errorf("%q has %q on disk", name, got)
		}
		if got := c.read(uri); got != name {
			t.Errorf("%q reads %q", uri, got)
		}
		canonical := result[struct{ Path string }](c, "fs/canonicalize", object{"path": uri}).Path
		if got := c.read(canonical); got != name {
			t.Errorf("canonical %q reads %q", canonical, got)
		}
	}
	listed := result[struct{ Entries []struct{ FileName string } }](c, "fs/readDirectory", object{"path": "$U"}).Entries
	if len(listed) != len(names) {
		t.Errorf("%d entries, want %d: %v", len(listed), len(names), listed)
	}

	c.put("a", "safe")
	c.mkdir("x")
	c.put("x/y", "safe")
	for _, uri := range []string{
		"$U/a#b", "$U/a?b", "$U/100%", "$U/%zz", "$U/a%00b", "$U/x%2Fy", c.path("a"), "file:a",
		"file://otherhost/x", "http://x" + c.path("a"), "",
	} {
		c.want("-32602 *", "fs/readFile", object{"path": uri})
		c.want("-32602 *", "fs/writeFile", object{"path": uri, "dataBase64": b64("changed")})
	}
	if c.content("a") != "safe" || c.content("x/y") != "safe" {
		t.Errorf("a has %q, x/y has %q", c.content("a"), c.content("x/y"))
	}
	for _, prefix := range []string{"file://localhost", "FILE://"} {
		if got := c.read(prefix + c.path("a")); got != "safe" {
			t.Errorf("%s: %s", prefix, got)
		}
	}
	for _, uri := range []string{"file:///C:/x", "file:///C:"} {
		c.want("-32600 '"+uri+"' is invalid on '*'", "fs/readFile", object{"path": uri})
	}
}

func TestC028FilesThatNeverEndOrNeverStart(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.mkdir("dir")
	c.put("dir/x", "x")
	for _, name := range []string{"f", "dir/f"} {
		if err := unix.Mkfifo(c.path(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	makeSocket(t, c.path("s"))
	done := make(chan struct{})
	go func() { // each answers at once, so all do
		defer close(done)
		for _, name := range []string{"f", "s"} {
			for method, params := range map[string]object{
				"fs/readFile": {}, "fs/open": {"handleId": name}, "fs/writeFile": {"dataBase64": ""},
			} {
				params["path"] = "$U/" + name
				c.want("-326*", method, params)
			}
			c.want("-32603 *", "fs/open", object{"path": "$U/" + name, "handleId": name, "mode": "replace"})
			c.want("-32600 *", "fs/copy", object{"sourcePath": "$U/" + name, "destinationPath": "$U/to", "recursive": false})
		}
		c.want("-32600 *", "fs/readFile", object{"path": "file:///dev/zero"})
		c.want(`{}`, "fs/copy", object{"sourcePath": "$U/dir", "destinationPath": "$U/copy", "recursive": true})
		c.want(`{"isDirectory":false,"isFile":false,"isSymlink":false*}`, "fs/getMetadata", object{"path": "$U/f"})
		c.want(`{"matches":[]*}`, "fs/grep", object{"path": "$U/dir", "pattern": "nothing"})
		c.want(`{}`, "fs/remove", object{"path": "$U/f"})
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a request hangs")
	}
	c.wantFiles("", "copy/ copy/x dir/ dir/f dir/x s")
}

func TestC029SymlinkLoopsAndDanglingLinks(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.mkdir("w/d")
	c.put("w/ok", "ok")
	for name, target := range map[string]string{"l1": "l2", "l2": "l1", "up": ".", "gone": "nothing", "ld": "d"} {
		c.link(target, "w/"+name)
	}
	listed := map[string]bool{}
	for _, e := range result[struct {
		Entries []struct {
			FileName    string
			IsDirectory bool
		}
	}](c, "fs/readDirectory", object{"path": "$U/w"}).Entries {
		listed[e.FileName] = e.IsDirectory
	}
	if want := map[string]bool{"ok": false, "d": true, "ld": true, "up": true}; fmt.Sprint(listed) != fmt.Sprint(want) {
		t.Errorf("listed %v, want %v", listed, want)
	}
	c.want(`{"isDirectory":true,"isFile":false,"isSymlink":true*}`, "fs/getMetadata", object{"path": "$U/w/ld"})
	for _, method := range []string{"fs/getMetadata", "fs/canonicalize"} {
		c.want(loop, method, object{"path": "$U/w/l1"})
		c.want(notFound, method, object{"path": "$U/w/gone"})
	}
	c.want(`{"path":"$U/w/d"}`, "fs/canonicalize", object{"path": "$U/w/ld"})
	c.want(`{}`, "fs/copy", object{"sourcePath": "$U/w", "destinationPath": "$U/copy", "recursive": true})
	c.wantFiles("copy", "d/ gone->nothing l1->l2 l2->l1 ld->d ok up->.")
	if got, want := walked(c, "$U/w", object{"followDirectorySymlinks": true}), "w/d/ w/ld/ w/ok w/up/"; got != want {
		t.Errorf("walked %s, want %s", got, want)
	}
}

func TestC030ListingADirectoryThatIsChanging(t *testing.T) {
	c := newClient(t, fs.Config{})
	for i := range 50 {
		c.put(fmt.Sprintf("d/keep%02d", i), "x")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			for i := range 2000 {
				select {
				case <-stop:
					return
				default:
				}
				old, renamed := c.path(fmt.Sprintf("d/t%d", i)), c.path(fmt.Sprintf("d/u%d", i))
				_ = os.WriteFile(old, nil, 0o666)
				_ = os.Rename(old, renamed)
				if i%3 == 0 {
					_ = os.Symlink("nowhere", old)
				}
				_ = os.Remove(renamed)
				_ = os.Remove(old)
			}
		}
	})
	for i := range 200 {
		keep := map[string]int{}
		for _, e := range result[struct{ Entries []struct{ FileName string } }](c, "fs/readDirectory", object{"path": "$U/d"}).Entries {
			if strings.HasPrefix(e.FileName, "keep") {
				keep[e.FileName]++
			}
		}
		if len(keep) != 50 {
			t.Fatalf("listing %d has %d of the 50 that stay", i, len(keep))
		}
		for name, n := range keep {
			if n != 1 {
				t.Fatalf("listing %d has %s %d times", i, name, n)
			}
		}
		if i%50 == 0 {
			to := fmt.Sprintf("$U/copy%d", i)
			c.want(`{}`, "fs/copy", object{"sourcePath": "$U/d", "destinationPath": to, "recursive": true})
			c.want(`{}`, "fs/remove", object{"path": to})
		}
	}
	close(stop)
	wg.Wait()
	c.want(notFound, "fs/readDirectory", object{"path": "$U/copy0"})
}

// 100,000 entries come whole, and others are served meanwhile.
func TestC030HugeDirectory(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.mkdir("d")
	const n = 100_000
	for i := range n { // names of few files, since those are quick to make
		name := c.path(fmt.Sprintf("d/%06d", i))
		if i%20_000 == 0 {
			c.put(fmt.Sprintf("d/%06d", i), "")
		} else if err := os.Link(c.path(fmt.Sprintf("d/%06d", i/20_000*20_000)), name); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 { // on a machine that stops the second request may be late
		if listedBeside(t, c, n)[0] == 2 {
			return
		}
	}
	t.Error("the listing held up another request")
}

// listedBeside lists n entries, and asks for something else meanwhile. It returns the order
// of the answers.
func listedBeside(t *testing.T, c *client, n int) (order []int) {
	t.Helper()
	// The answer has more values than a Peer takes, so it is looked at as it comes.
	conn, _ := serve(t, fs.Config{})
	requests := []string{
		`{"id":1,"method":"fs/readDirectory","params":{"path":"` + c.uri + `/d"}}`,
		`{"id":2,"method":"fs/getMetadata","params":{"path":"` + c.uri + `"}}`,
	}
	for _, req := range requests {
		if err := conn.Write(t.Context(), []byte(req)); err != nil {
			t.Fatal(err)
		}
	}
	for range requests {
		msg, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			ID     int
			Result struct{ Entries []struct{ FileName string } }
		}
		if err := json.Unmarshal(msg, &answer); err != nil {
			t.Fatal(err)
		}
		order = append(order, answer.ID)
		if answer.ID != 1 {
			continue
		}
		seen := make(map[string]bool, n)
		for _, e := range answer.Result.Entries {
			seen[e.FileName] = true
		}
		if len(answer.Result.Entries) != n || len(seen) != n {
			t.Errorf("%d entries, %d of them different; want %d", len(answer.Result.Entries), len(seen), n)
		}
	}
	return order
}

func TestC031OverwritingChangesWhatTheFileIs(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.put("s.sh", "#!/bin/sh\necho old\n")
	c.put("key", "secret")
	c.mkdir("data")
	c.link("data/real", "link")
	c.put("h1", "shared")
	if err := os.Link(c.path("h1"), c.path("h2")); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"s.sh": 0o755, "key": 0o600} {
		if err := os.Chmod(c.path(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string]string{"s.sh": "#!/bin/sh\necho new\n", "key": "changed", "link": "through", "h1": "own"} {
		c.want(`{}`, "fs/writeFile", object{"path": "$U/" + name, "dataBase64": b64(data)})
	}
	for name, mode := range map[string]os.FileMode{"s.sh": 0o755, "key": 0o600} {
		if info, err := os.Stat(c.path(name)); err != nil || info.Mode() != mode {
			t.Errorf("%s is %v, want %v", name, info.Mode(), mode)
		}
	}
	if out, err := exec.Command(c.path("s.sh")).Output(); err != nil || string(out) != "new\n" {
		t.Errorf("the script says %q, %v", out, err)
	}
	if c.content("data/real") != "through" {
		t.Errorf("data/real has %q", c.content("data/real"))
	}
	// As documented: the name that was written is a file of its own now.
	if c.content("h1") != "own" || c.content("h2") != "shared" {
		t.Errorf("h1 has %q, h2 has %q", c.content("h1"), c.content("h2"))
	}
	c.wantFiles("", "data/ data/real h1 h2 key link->data/real s.sh")

	mask := syscall.Umask(0o022)
	defer syscall.Umask(mask)
	c.want(`{}`, "fs/writeFile", object{"path": "$U/new", "dataBase64": ""})
	if info, err := os.Stat(c.path("new")); err != nil || info.Mode() != 0o644 {
		t.Errorf("a new file is %v", info.Mode())
	}
}

// Readers see the old content or the new, never a mix.
func TestC031ReadersSeeNoMix(t *testing.T) {
	c := newClient(t, fs.Config{})
	contents := []string{strings.Repeat("a", 300_000), strings.Repeat("b", 200_000)}
	c.put("f", contents[0])
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if got := c.content("f"); got != contents[0] && got != contents[1] {
				t.Errorf("%d bytes, %d of them a", len(got), strings.Count(got, "a"))
				return
			}
		}
	})
	for i := range 30 {
		c.want(`{}`, "fs/writeFile", object{"path": "$U/f", "dataBase64": b64(contents[i%2])})
	}
	cancel()
	wg.Wait()
}

func TestC032CopyIntoItselfRemoveThroughALink(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.put("a/b/x", "x")
	c.link("a", "lnk")
	const itself = "-32600 fs/copy cannot copy a directory to itself or one of its descendants"
	for _, to := range []string{"$U/a/b", "$U/a", "$U/lnk/b", "$U/a/x/y", "$U/lnk"} {
		c.want(itself, "fs/copy", object{"sourcePath": "$U/a", "destinationPath": to, "recursive": true})
	}
	c.want("-32600 *", "fs/copy", object{"sourcePath": "$U/a", "destinationPath": "$U/c", "recursive": false})
	c.want(`{}`, "fs/copy", object{"sourcePath": "$U/a", "destinationPath": "$U/ab", "recursive": true}) // a longer name is not inside
	c.want(`{}`, "fs/remove", object{"path": "$U/ab"})
	c.wantFiles("", "a/ a/b/ a/b/x lnk->a")
	c.want(`{}`, "fs/remove", object{"path": "$U/lnk", "recursive": true})
	c.want("-32603 Directory not empty (os error 39)", "fs/remove", object{"path": "$U/a", "recursive": false})
	c.wantFiles("", "a/ a/b/ a/b/x")
	c.want(`{}`, "fs/remove", object{"path": "$U/missing", "force": true})
	c.want(notFound, "fs/remove", object{"path": "$U/missing", "force": false})
}

func TestC033NamesAtTheLengthLimit(t *testing.T) {
	c := newClient(t, fs.Config{})
	const tooLong = "-32603 Filename too long (os error 36)"
	for _, tt := range []struct {
		name string
		ok   bool
	}{
		{strings.Repeat("n", 240), true},
		{strings.Repeat("n", 243), true},
		{strings.Repeat("n", 255), true},
		{strings.Repeat("é", 127), true},
		{strings.Repeat("n", 256), false},
		{strings.Repeat("é", 128), false},
	} {
		want := tooLong
		if tt.ok {
			want = `{}`
		}
		uri := fileuri.Format(c.path(tt.name))
		for range 2 { // new, then over it
			c.want(want, "fs/writeFile", object{"path": uri, "dataBase64": b64("x")})
		}
		c.put("from", "y")
		c.want(want, "fs/copy", object{"sourcePath": "$U/from", "destinationPath": uri, "recursive": false})
		if tt.ok {
			c.want(`{"handleId":"h"}`, "fs/open", object{"handleId": "h", "path": uri, "mode": "replace"})
		} else {
			c.want(want, "fs/open", object{"handleId": "h", "path": uri, "mode": "replace"})
		}
		c.want(`{}`, "fs/close", object{"handleId": "h"})
		c.want(want, "fs/remove", object{"path": uri})
		c.wantFiles("", "from")
	}
	deep := c.dir
	for len(deep) < 4090-1-255 {
		deep += "/" + strings.Repeat("d", min(200, 4090-1-255-len(deep)))
	}
	c.want(`{}`, "fs/createDirectory", object{"path": fileuri.Format(deep)})
	long := fileuri.Format(deep + "/" + strings.Repeat("n", 4090-len(deep)-1))
	c.want(`{}`, "fs/writeFile", object{"path": long, "dataBase64": b64("deep")})
	c.want(`{}`, "fs/writeFile", object{"path": long, "dataBase64": b64("deeper")})
	if got := c.read(long); got != "deeper" {
		t.Errorf("a path of 4090 bytes reads %.100s", got)
	}
	c.want(tooLong, "fs/writeFile", object{"path": long + strings.Repeat("n", 10), "dataBase64": ""})
}

func TestC034NamesThatAreNotUTF8(t *testing.T) {
	c := newClient(t, fs.Config{})
	for _, name := range []string{"a\xff", "a\xfe", "plain"} {
		c.put(name, name)
	}
	var paths []string
	for _, e := range result[struct {
		Entries []struct{ FileName, Path string }
	}](c, "fs/readDirectory", object{"path": "$U"}).Entries {
		if !utf8.ValidString(e.FileName) {
			t.Errorf("%q is no UTF-8", e.FileName)
		}
		paths = append(paths, e.FileName+"="+e.Path)
	}
	got := strings.Join(paths, " ")
	for _, want := range []string{"a\uFFFD=$U/a%FF", "a\uFFFD=$U/a%FE", "plain="} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if len(paths) != 3 {
		t.Errorf("%d entries", len(paths))
	}
	if got := c.read("$U/a%FF"); got != "a\xff" {
		t.Errorf("read %q", got)
	}
	c.want(`{"path":"$U/a%FF"}`, "fs/canonicalize", object{"path": "$U/a%FF"})
}

func TestC034AFailedWriteReportedAsDone(t *testing.T) {
	const limited = "WSD_TEST_FILE_LIMIT"
	if os.Getenv(limited) != "" {
		underFileSizeLimit(t)
		return
	}
	c := newClient(t, fs.Config{})
	if runtime.GOOS == "linux" {
		c.want("-32603 No space left on device (os error 28)", "fs/writeFile", object{"path": "file:///dev/full", "dataBase64": b64("x")})
	}
	// This process under a limit would be no good, so another copy of it is.
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `ulimit -f 8 && exec "$0" -test.run '^TestC034AFailedWriteReportedAsDone$' -test.v`, exe)
	cmd.Env = append(os.Environ(), limited+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestC034AFailedWriteReportedAsDone")) {
		t.Errorf("under a limit: %v\n%s", err, out)
	}
}

// underFileSizeLimit is the part of C-034 that needs a process of its own.
func underFileSizeLimit(t *testing.T) {
	t.Helper()
	c := newClient(t, fs.Config{})
	old := strings.Repeat("o", 100)
	c.put("old", old)
	c.want("-32603 File too large (os error 27)", "fs/writeFile", object{"path": "$U/old", "dataBase64": b64(strings.Repeat("n", 100_000))})
	c.want(`{"handleId":"h"}`, "fs/open", object{"handleId": "h", "path": "$U/old", "mode": "replace"})
	c.want("-32603 File too large (os error 27)", "fs/writeBlock", object{"handleId": "h", "offset": 0, "chunk": b64(strings.Repeat("n", 100_000))})
	c.want("-32603 nothing was replaced, *", "fs/close", object{"handleId": "h"})
	if c.content("old") != old {
		t.Errorf("old has %q", c.content("old"))
	}
	c.wantFiles("", "old")
}
