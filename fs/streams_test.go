package fs_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs"
)

// What these say was provoked from codex 0.171.0, except where replacing at close
// differs.
func TestStreamErrors(t *testing.T) {
	c := fixture(t)
	long := strings.Repeat("w", 33)
	const tooLong, unknownR = "-32600 file handle ID must not exceed 32 bytes", "-32004 unknown file handle `r`"
	type step struct {
		want, method string
		params       object
	}
	run := func(steps ...step) {
		t.Helper()
		for _, s := range steps {
			c.want(s.want, s.method, s.params)
		}
	}
	open := func(id, path, mode string) object { return object{"handleId": id, "path": path, "mode": mode} }
	run(
		step{"-32600 path `$W/f` is not a file", "fs/open", open("r", "$U/f", "read")},
		step{noDevice, "fs/open", open("r", "$U/f", "replace")},
		step{"-32600 path `$W/ld` is not a file", "fs/open", open("r", "$U/ld", "read")},
		step{isDir, "fs/open", open("r", "$U/ld", "replace")},
		step{notFound, "fs/open", open("r", "$U/dang", "read")},
		step{notFound, "fs/open", open("r", "$U/no/x", "replace")},
		step{noDevice, "fs/open", open("r", "$U/sock", "read")},
		step{"-32600 path `/dev/null` is not a file", "fs/open", open("r", "file:///dev/null", "read")},
		step{"-32600 path `/dev/null` is not a file", "fs/open", open("r", "file:///dev/null", "replace")},
		step{"-32602 unknown variant `zz`, expected `read` or `replace`", "fs/open", open("r", "$U/a", "zz")},
		step{"-32602 *", "fs/open", object{"handleId": "r", "path": "$U/a", "mode": nil}},
		step{"-32602 *", "fs/open", object{"path": "$U/a"}},
		step{"-32602 *", "fs/open", object{"handleId": "r", "path": "$U/a", "ifNoneMatch": "*"}},
		step{tooLong, "fs/open", open(long, "$U/a", "read")},
		step{tooLong, "fs/open", open(strings.Repeat("é", 17), "$U/a", "read")},
		step{tooLong, "fs/readBlock", object{"handleId": long, "offset": 0, "len": 1}},
		step{tooLong, "fs/writeBlock", object{"handleId": long, "offset": 0, "chunk": "eA=="}},
		step{tooLong, "fs/close", object{"handleId": long}},
		step{`{}`, "fs/close", object{"handleId": "unknown"}},
		step{unknownR, "fs/readBlock", object{"handleId": "r", "offset": 0, "len": 1}},
		step{unknownR, "fs/writeBlock", object{"handleId": "r", "offset": 0, "chunk": "eA=="}},

		step{`{"handleId":"r"}`, "fs/open", object{"handleId": "r", "path": "$U/a"}},
		step{"-32600 file handle `r` already exists", "fs/open", open("r", "$U/a", "replace")},
		step{"-32600 file read block length must be between 1 and 1048576", "fs/readBlock", object{"handleId": "r", "offset": 0, "len": 0}},
		step{"-32600 file read block length must be between 1 and 1048576", "fs/readBlock", object{"handleId": "r", "offset": 0, "len": 1<<20 + 1}},
		step{"-32603 Bad file descriptor (os error 9)", "fs/writeBlock", object{"handleId": "r", "offset": 0, "chunk": "eA=="}},
		step{`{"chunk":"YQ==","eof":false}`, "fs/readBlock", object{"handleId": "r", "offset": 0, "len": 1}},
		step{`{"chunk":"YQo=","eof":false}`, "fs/readBlock", object{"handleId": "r", "offset": 0, "len": 2}},
		step{`{"chunk":"","eof":true}`, "fs/readBlock", object{"handleId": "r", "offset": 2, "len": 2}},
		step{`{"chunk":"","eof":true}`, "fs/readBlock", object{"handleId": "r", "offset": 1 << 40, "len": 2}},
		step{"-32600 Invalid argument (os error 22)", "fs/readBlock", object{"handleId": "r", "offset": uint64(1 << 63), "len": 1}},
		step{unknownR, "fs/readBlock", object{"handleId": "r", "offset": 0, "len": 1}}, // a failed read ends it
		step{`{"handleId":""}`, "fs/open", open("", "$U/a", "read")},

		step{`{"handleId":"w"}`, "fs/open", open("w", "$U/w", "replace")},
		step{"-32600 file write range exceeds the signed 64-bit file offset limit", "fs/writeBlock", object{"handleId": "w", "offset": math.MaxInt64, "chunk": "eA=="}},
		step{"-32600 file write block length must be between 1 and 1048576", "fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": ""}},
		step{"-32600 file write block length must be between 1 and 1048576", "fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": b64(strings.Repeat("x", 1<<20+1))}},
		step{"-32602 Invalid symbol 33, offset 0.", "fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": "!"}},
		step{`{}`, "fs/writeBlock", object{"handleId": "w", "offset": 3, "chunk": "eHg="}},
		step{"-32603 Bad file descriptor (os error 9)", "fs/readBlock", object{"handleId": "w", "offset": 0, "len": 10}},
		step{"-32004 unknown file handle `w`", "fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": "eHg="}},
		step{`{}`, "fs/close", object{"handleId": "w"}},
	)
	if got := c.content("w"); !strings.HasPrefix(got, "error") {
		t.Errorf("an ended stream left %q", got)
	}
}

func TestStreamReplacesAtClose(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.put("f", "old content")
	c.link("f", "l")
	if err := os.Chmod(c.path("f"), 0o751); err != nil {
		t.Fatal(err)
	}
	open := func(name string, more object) {
		t.Helper()
		params := object{"handleId": "h", "path": "$U/" + name, "mode": "replace"}
		for k, v := range more {
			params[k] = v
		}
		c.want(`{"handleId":"h"}`, "fs/open", params)
	}
	write := func(offset int, data string) {
		t.Helper()
		c.want(`{}`, "fs/writeBlock", object{"handleId": "h", "offset": offset, "chunk": b64(data)})
	}
	open("l", nil)
	write(8, "end")
	write(0, "beg")
	write(2, "G")
	if got := c.content("f"); got != "old content" {
		t.Errorf("before close: %q", got)
	}
	c.wantFiles("", "f l->f")
	c.want(`{}`, "fs/close", object{"handleId": "h"})
	if got := c.content("f"); got != "beG\x00\x00\x00\x00\x00end" {
		t.Errorf("after close: %q", got)
	}
	if info, err := os.Stat(c.path("f")); err != nil || info.Mode() != 0o751 {
		t.Errorf("mode %v", info.Mode())
	}
	c.wantFiles("", "f l->f")

	open("f", nil)
	write(0, "dropped")
	c.want(`{}`, "fs/close", object{"handleId": "h", "discard": true})
	open("f", nil)
	write(0, "dropped")
	c.want(`{}`, "fs/remove", object{"path": "$U/f"})
	c.want(`{}`, "fs/close", object{"handleId": "h"}) // it is there again
	if info, err := os.Stat(c.path("f")); err != nil || c.content("f") != "dropped" || info.Mode() != 0o751 {
		t.Errorf("after a removal meanwhile: %q, %v", c.content("f"), info.Mode())
	}
	open("empty", object{"fileMode": 0o600})
	c.want(`{}`, "fs/close", object{"handleId": "h"})
	if info, err := os.Stat(c.path("empty")); err != nil || info.Size() != 0 || info.Mode() != 0o600 {
		t.Errorf("empty: %v, %v", info, err)
	}
	c.want(`{}`, "fs/createDirectory", object{"path": "$U/dir"})
	open("dir/x", nil)
	c.want(`{}`, "fs/remove", object{"path": "$U/dir"})
	c.want(notFound, "fs/close", object{"handleId": "h"}) // and close says so
	c.want(`{}`, "fs/close", object{"handleId": "h"})
}

// The end of the connection discards what was not closed.
func TestStreamEndsWithConnection(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.put("f", "old")
	for i, name := range []string{"f", "new"} {
		id := fmt.Sprint(i)
		c.want(`{"handleId":"`+id+`"}`, "fs/open", object{"handleId": id, "path": "$U/" + name, "mode": "replace"})
		c.want(`{}`, "fs/writeBlock", object{"handleId": id, "offset": 0, "chunk": b64("half")})
	}
	before := openDescriptors(t)
	c.end()
	if after := openDescriptors(t); after >= before && after > 0 {
		t.Errorf("%d descriptors before, %d after the end", before, after)
	}
	if c.content("f") != "old" {
		t.Errorf("f has %q", c.content("f"))
	}
	c.wantFiles("", "f")
}

// openDescriptors counts those of this process, 0 where the system does not tell.
func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

func TestStreamLimit(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.put("f", "x")
	for i := range 128 {
		c.want(`{"handleId":*}`, "fs/open", object{"handleId": fmt.Sprint(i), "path": "$U/f"})
	}
	const full = "-32600 at most 128 file handles may be open per connection"
	c.want(full, "fs/open", object{"handleId": "more", "path": "$U/f"})
	c.want(full, "fs/open", object{"handleId": "more", "path": "$U/new", "mode": "replace"})
	c.want(`{}`, "fs/close", object{"handleId": "7"})
	c.want(`{"handleId":"more"}`, "fs/open", object{"handleId": "more", "path": "$U/f"})
	c.wantFiles("", "f")
}

func TestReadStreamSeesGrowthAndOutlivesTheName(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.put("f", "0123456789")
	c.want(`{"handleId":"h"}`, "fs/open", object{"handleId": "h", "path": "$U/f"})
	f, err := os.OpenFile(c.path("f"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	more := strings.Repeat("x", 100_000)
	if _, err := f.WriteString(more); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(c.path("f")); err != nil {
		t.Fatal(err)
	}
	r := result[struct {
		Chunk []byte
		EOF   bool
	}](c, "fs/readBlock", object{"handleId": "h", "offset": 5, "len": 1 << 20})
	if string(r.Chunk) != "56789"+more || !r.EOF {
		t.Errorf("%d bytes, eof %v", len(r.Chunk), r.EOF)
	}
}

// A stream that replaces is a byte array that grows with zeros, whatever is written
// where and in which order; nobody sees it before it is closed.
func TestStreamModel(t *testing.T) {
	c := newClient(t, fs.Config{})
	type block struct {
		offset int
		data   []byte
	}
	type plan struct {
		old    string
		blocks []block
		drop   bool
	}
	plans := rapid.Custom(func(rt *rapid.T) plan {
		p := plan{old: rapid.StringN(0, 20, 40).Draw(rt, "old"), drop: rapid.Bool().Draw(rt, "drop")}
		for range rapid.IntRange(0, 8).Draw(rt, "blocks") {
			p.blocks = append(p.blocks, block{
				rapid.IntRange(0, 5000).Draw(rt, "offset"),
				rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(rt, "data"),
			})
		}
		return p
	})
	rapid.Check(t, func(rt *rapid.T) {
		p := plans.Draw(rt, "plan")
		c.put("f", p.old)
		c.call("fs/open", object{"handleId": "h", "path": "$U/f", "mode": "replace"})
		var model []byte
		for _, b := range p.blocks {
			if end := b.offset + len(b.data); end > len(model) {
				model = append(model, make([]byte, end-len(model))...)
			}
			copy(model[b.offset:], b.data)
			if got := c.call("fs/writeBlock", object{"handleId": "h", "offset": b.offset, "chunk": base64.StdEncoding.EncodeToString(b.data)}); got != `{}` {
				rt.Fatalf("write at %d: %s", b.offset, got)
			}
			if got := c.content("f"); got != p.old {
				rt.Fatalf("content before close: %q", got)
			}
		}
		if got := c.call("fs/close", object{"handleId": "h", "discard": p.drop}); got != `{}` {
			rt.Fatalf("close: %s", got)
		}
		if p.drop {
			model = []byte(p.old)
		}
		if got := c.content("f"); !bytes.Equal([]byte(got), model) {
			rt.Fatalf("content %q, want %q", got, model)
		}
		if got := c.files(""); got != "f" {
			rt.Fatalf("directory has %s", got)
		}
	})
}
