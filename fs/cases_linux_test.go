package fs_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs"
)

func TestC027KernelFilesReadAsEmpty(t *testing.T) {
	c := newClient(t, fs.Config{})
	const status = "file:///proc/self/status"
	whole := c.read(status)
	if !strings.HasPrefix(whole, "Name:") || !strings.HasSuffix(whole, "\n") {
		t.Errorf("read %.100q", whole)
	}
	c.want(`{"handleId":"h"}`, "fs/open", object{"handleId": "h", "path": status})
	var blocks []byte
	for {
		r := result[struct {
			Chunk []byte
			EOF   bool
		}](c, "fs/readBlock", object{"handleId": "h", "offset": len(blocks), "len": 100})
		blocks = append(blocks, r.Chunk...)
		if r.EOF != (len(r.Chunk) < 100) {
			t.Errorf("eof %v after %d bytes", r.EOF, len(r.Chunk))
		}
		if r.EOF {
			break
		}
	}
	if !bytes.HasPrefix(blocks, []byte("Name:")) || !bytes.HasSuffix(blocks, []byte("\n")) {
		t.Errorf("blocks %.100q", blocks)
	}
	c.want(`{}`, "fs/copy", object{"sourcePath": status, "destinationPath": "$U/c", "recursive": false})
	if got := c.content("c"); !strings.HasPrefix(got, "Name:") || !strings.HasSuffix(got, "\n") {
		t.Errorf("copy has %.100q", got)
	}
}

// The old content is let go after the answer, whether that is an error or not, but let
// go it is.
func TestWritesLetGoOfOldContent(t *testing.T) {
	c := newClient(t, fs.Config{})
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	data := base64.StdEncoding.EncodeToString([]byte("new"))
	write := func() {
		c.want(`{}`, "fs/writeFile", object{"path": "$U/f", "dataBase64": data})
		c.call("fs/writeFile", object{"path": "$U/f", "dataBase64": data, "ifMatch": "sha256:" + strings.Repeat("0", 64)})
	}
	write()
	before := open()
	for range 50 {
		write()
	}
	for begin := time.Now(); open() > before; { // answered, but perhaps not let go of yet
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d files open, %d before", open(), before)
		}
	}
}
