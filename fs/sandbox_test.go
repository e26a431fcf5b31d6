package fs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// fakeSandboxer has helpers that are no processes and confine nothing.
type fakeSandboxer struct {
	mu     sync.Mutex
	starts int
	age    atomic.Uint64 // generation
	conns  []*countedConn
	wg     sync.WaitGroup
}

type countedConn struct {
	rpc.Connection
	mu       sync.Mutex
	requests []string
	closed   bool
}

func (c *countedConn) Write(ctx context.Context, msg []byte) error {
	c.mu.Lock()
	c.requests = append(c.requests, string(msg))
	c.mu.Unlock()
	return c.Connection.Write(ctx, msg)
}

func (c *countedConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.Connection.Close()
}

func (f *fakeSandboxer) Direct(s *protocol.Sandbox) (bool, error) {
	switch s.WindowsSandboxLevel {
	case "bad":
		return false, protocol.InvalidParams("a sandbox that makes no sense")
	case "direct":
		return true, nil
	}
	return s.Permissions.Type == protocol.PermissionsDisabled, nil
}

// Open opens files under the level "open".
func (f *fakeSandboxer) Open(s *protocol.Sandbox, path string) (int, bool) {
	if s.WindowsSandboxLevel != "open" || strings.HasSuffix(path, "denied") {
		return -1, false
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return fd, err == nil
}

func (f *fakeSandboxer) Generation() uint64 { return f.age.Load() }

func (f *fakeSandboxer) Start(_ context.Context, s *protocol.Sandbox) (rpc.Connection, error) {
	if s.WindowsSandboxLevel == "broken" {
		return nil, errors.New("no sandbox today")
	}
	a, b := rpc.Pair()
	conn := &countedConn{Connection: b}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts++
	f.conns = append(f.conns, conn)
	f.wg.Go(func() { _ = fs.ServeConfinedOn(context.Background(), a) })
	return conn, nil
}

// requests counts the requests to helpers that contain text.
func (f *fakeSandboxer) requests(text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.conns {
		c.mu.Lock()
		for _, r := range c.requests {
			if strings.Contains(r, text) {
				n++
			}
		}
		c.mu.Unlock()
	}
	return n
}

func sandboxed(t *testing.T) (*client, *fakeSandboxer) {
	f := &fakeSandboxer{}
	c := newClient(t, fs.Config{Sandbox: f, Host: fs.NewHost().KeepHelpers()})
	t.Cleanup(func() {
		c.end()
		f.wg.Wait() // every helper ends
		for i, conn := range f.conns {
			if !conn.closed {
				t.Errorf("the connection to helper %d is not closed", i)
			}
		}
	})
	return c, f
}

// box is a sandbox object; those with different names differ.
func box(name string) object {
	return object{
		"permissions": object{"type": "managed", "file_system": object{
			"type":    "restricted",
			"entries": []any{object{"path": object{"type": "path", "path": "file:///" + name}, "access": "write"}},
		}, "network": "restricted"},
		"windowsSandboxLevel": "disabled",
	}
}

func level(name string) object {
	b := box("x")
	b["windowsSandboxLevel"] = name
	return b
}

func TestWithoutSandboxer(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.put("f", "x")
	for method, params := range map[string]object{
		"fs/readFile": {}, "fs/writeFile": {"dataBase64": ""}, "fs/open": {"handleId": "h"}, "fs/watch": {"watchId": "w"},
		"fs/glob": {"pattern": "*"}, "fs/readDirectory": {},
	} {
		params["path"], params["sandbox"] = "$U/f", box("x")
		c.want("-32602 sandboxing is unavailable *", method, params)
	}
	for _, free := range []object{
		{"type": "disabled"},
		{"type": "external", "network": "enabled"},
		{"type": "managed", "file_system": object{"type": "unrestricted"}, "network": "restricted"},
	} {
		c.want(`{"dataBase64":"eA=="}`, "fs/readFile", object{
			"path":    "$U/f",
			"sandbox": object{"permissions": free, "windowsSandboxLevel": "disabled"},
		})
	}
	c.want("-32602 *missing field `permissions`", "fs/readFile", object{"path": "$U/f", "sandbox": object{"policy": "x"}})
}

func TestRoutes(t *testing.T) {
	c, f := sandboxed(t)
	c.put("f", "hello")
	c.put("d/x.go", "needle")
	c.link("f", "l")
	b := box("one")
	for _, tt := range []struct {
		want, method string
		params       object
	}{
		{`{"dataBase64":"aGVsbG8="}`, "fs/readFile", object{"path": "$U/f"}},
		{`{"isDirectory":false,"isFile":true,*}`, "fs/getMetadata", object{"path": "$U/f"}},
		{`{"path":"$U/f"}`, "fs/canonicalize", object{"path": "$U/l"}},
		{`{"entries":[{"fileName":"x.go","isDirectory":false,"isFile":true}]}`, "fs/readDirectory", object{"path": "$U/d"}},
		{`{"entries":[{"path":"$U/d/x.go","kind":"file"}],"errors":[],"truncated":false}`, "fs/walk", object{
			"path":    "$U/d",
			"options": object{"maxDepth": 1, "maxDirectories": 1, "maxEntries": 9, "followDirectorySymlinks": false},
		}},
		{`{}`, "fs/writeFile", object{"path": "$U/new", "dataBase64": "eA=="}},
		{failed(there, hash("x")), "fs/writeFile", object{"path": "$U/new", "dataBase64": "eA==", "ifNoneMatch": "*"}},
		{`{}`, "fs/createDirectory", object{"path": "$U/e"}},
		{`{}`, "fs/copy", object{"sourcePath": "$U/new", "destinationPath": "$U/e/copy", "recursive": false}},
		{`{}`, "fs/copy", object{"sourcePath": "$U/e", "destinationPath": "$U/g", "recursive": true}},
		{`{}`, "fs/rename", object{"sourcePath": "$U/new", "destinationPath": "$U/newer"}},
		{`{}`, "fs/symlink", object{"path": "$U/s", "target": "t"}},
		{`{"target":"t"}`, "fs/readLink", object{"path": "$U/s"}},
		{`{}`, "fs/chmod", object{"path": "$U/newer", "mode": 0o600}},
		{`{"entries":[{"path":"$U/d/x.go","kind":"file"}],"truncated":false}`, "fs/glob", object{"path": "$U", "pattern": "**/*.go"}},
		{`{"matches":[{"path":"$U/d/x.go",*}`, "fs/grep", object{"path": "$U", "pattern": "needle"}},
		{`{}`, "fs/remove", object{"path": "$U/e"}},
		{notFound, "fs/readFile", object{"path": "$U/e/copy"}},
	} {
		tt.params["sandbox"] = b
		c.want(tt.want, tt.method, tt.params)
		if n := f.requests(tt.method); n == 0 {
			t.Errorf("%s did not run in the helper", tt.method)
		}
	}
	if f.starts != 1 {
		t.Errorf("%d helpers for one sandbox", f.starts)
	}
	if n := f.requests("sandbox"); n > 0 {
		t.Errorf("%d requests to the helper still have the sandbox", n)
	}
	c.wantFiles("", "d/ d/x.go f g/ g/copy l->f newer s->t")

	c.want("-32602 a sandbox that makes no sense", "fs/readFile", object{"path": "$U/f", "sandbox": level("bad")})
	c.want("-32603 no sandbox today", "fs/readFile", object{"path": "$U/f", "sandbox": level("broken")})
	c.want(`{"dataBase64":"aGVsbG8="}`, "fs/readFile", object{"path": "$U/f", "sandbox": level("direct")})
	c.want(`{}`, "fs/chmod", object{"path": "$U/f", "mode": 0o644, "sandbox": level("direct")})
	if f.starts != 1 {
		t.Error("a helper was started for what may run here")
	}
}

func TestStreamsInAHelper(t *testing.T) {
	c, f := sandboxed(t)
	c.put("f", "hello")
	open := func(id, path, mode string, more object) {
		t.Helper()
		params := object{"handleId": id, "path": path, "mode": mode, "sandbox": box("one")}
		for k, v := range more {
			params[k] = v
		}
		c.want(`{"handleId":"`+id+`"}`, "fs/open", params)
	}
	long := strings.Repeat("i", 32)
	open(long, "$U/f", "read", nil)
	open("w", "$U/new", "replace", object{"ifNoneMatch": "*"})
	c.want("-32600 file handle `w` already exists", "fs/open", object{"handleId": "w", "path": "$U/f"})
	c.want(`{"chunk":"ZWxs","eof":false}`, "fs/readBlock", object{"handleId": long, "offset": 1, "len": 3})
	c.want(`{}`, "fs/writeBlock", object{"handleId": "w", "offset": 2, "chunk": "eA=="})
	c.want(`{}`, "fs/close", object{"handleId": "w"})
	if c.content("new") != "\x00\x00x" {
		t.Errorf("new has %q", c.content("new"))
	}
	c.want("-32603 Bad file descriptor (os error 9)", "fs/writeBlock", object{"handleId": long, "offset": 0, "chunk": "eA=="})
	c.want("-32600 Invalid argument (os error 22)", "fs/readBlock", object{"handleId": long, "offset": uint64(1 << 63), "len": 3})
	c.want("-32004 unknown file handle `"+long+"`", "fs/readBlock", object{"handleId": long, "offset": 0, "len": 3})
	open("w", "$U/new", "replace", object{"ifMatch": hash("other")})
	c.want(failed(mismatch, hash("\x00\x00x")), "fs/close", object{"handleId": "w"})
	open("w", "$U/f", "replace", nil)
	c.want(`{}`, "fs/close", object{"handleId": "w", "discard": true})
	open("w", "$U/f", "replace", nil)
	c.want(`{}`, "fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": "eA=="})
	c.end() // discards it
	f.wg.Wait()
	if c.content("f") != "hello" {
		t.Errorf("f has %q", c.content("f"))
	}
	c.wantFiles("", "f new")
}

func TestLargeReadThroughAHelper(t *testing.T) {
	c, f := sandboxed(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 17<<16) // 17 MiB
	c.put("big", string(data))
	r := result[struct {
		DataBase64 []byte
		Hash       string
	}](c, "fs/readFile", object{"path": "$U/big", "includeHash": true, "sandbox": box("one")})
	if !bytes.Equal(r.DataBase64, data) || r.Hash != hash(string(data)) {
		t.Errorf("%d bytes, %s", len(r.DataBase64), r.Hash)
	}
	if f.requests("fs/readBlock") < 17 {
		t.Error("it was not read in blocks")
	}
	if f.requests("fs/close") != 1 {
		t.Error("the stream in the helper was left open")
	}
}

func TestWatchInAHelper(t *testing.T) {
	c, f := sandboxed(t)
	c.mkdir("w")
	for i := range 10 { // the answer comes first, always
		id := fmt.Sprint("watch", i)
		c.want(`{"directories":1}`, "fs/watch", object{"watchId": id, "path": "$U/w", "sandbox": box("one")})
		c.put("w/"+id, "")
		c.changes(id, "created $U/w/"+id)
		c.want(`{}`, "fs/unwatch", object{"watchId": id})
		c.put("w/after", "")
		c.quiet()
	}
	c.want(notFound, "fs/watch", object{"watchId": "x", "path": "$U/none", "sandbox": box("one")})
	c.want(`{"directories":1}`, "fs/watch", object{"watchId": "x", "path": "$U/w", "sandbox": box("one")})
	f.conns[0].Close() // a helper that dies loses its watches, and that is told
	if got := c.next(); got != `fs/changed {"watchId":"x","changes":[],"overflow":true}` {
		t.Errorf("told %s", got)
	}
	c.want(`{}`, "fs/unwatch", object{"watchId": "x"})
	c.want(`{"entries":*}`, "fs/readDirectory", object{"path": "$U/w", "sandbox": box("one")}) // in a new one
	if f.starts != 2 {
		t.Errorf("%d helpers were started, want 2", f.starts)
	}
}

func TestHelperLimit(t *testing.T) {
	c, f := sandboxed(t)
	c.put("f", "x")
	read := func(want, name string) {
		t.Helper()
		c.want(want, "fs/readFile", object{"path": "$U/f", "sandbox": box(name)})
	}
	const ok = `{"dataBase64":"eA=="}`
	for i := range 8 {
		read(ok, fmt.Sprint(i))
	}
	read(ok, "0")
	read(ok, "8") // ends the helper of 1
	read(ok, "0")
	if f.starts != 9 {
		t.Errorf("%d helpers were started, want 9", f.starts)
	}
	read(ok, "1")
	if f.starts != 10 {
		t.Errorf("%d helpers were started, want 10", f.starts)
	}
	for i, name := range []string{"0", "1", "3", "4", "5", "6", "7", "8"} {
		c.want(`{"handleId":*}`, "fs/open", object{"handleId": fmt.Sprint(i), "path": "$U/f", "sandbox": box(name)})
	}
	read("-32600 at most 8 different sandboxes may be in use per connection", "9")
	c.want(`{}`, "fs/close", object{"handleId": "3"})
	read(ok, "9")
	c.want(`{"chunk":"eA==","eof":true}`, "fs/readBlock", object{"handleId": "0", "offset": 0, "len": 9})
}

// A helper that ends takes its streams along; the next request starts another.
func TestHelperEnds(t *testing.T) {
	c, f := sandboxed(t)
	c.put("f", "x")
	c.want(`{"handleId":"r"}`, "fs/open", object{"handleId": "r", "path": "$U/f", "sandbox": box("one")})
	c.want(`{"handleId":"w"}`, "fs/open", object{"handleId": "w", "path": "$U/f", "mode": "replace", "sandbox": box("one")})
	f.conns[0].Close()
	const ended = "-32603 the sandbox helper has ended"
	c.want(ended, "fs/readBlock", object{"handleId": "r", "offset": 0, "len": 1})
	c.want("-32004 unknown file handle `r`", "fs/readBlock", object{"handleId": "r", "offset": 0, "len": 1})
	c.want(ended, "fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": "eA=="})
	c.want(ended, "fs/close", object{"handleId": "w"}) // nobody is told that it was replaced
	c.want(`{"dataBase64":"eA=="}`, "fs/readFile", object{"path": "$U/f", "sandbox": box("one")})
	if f.starts != 2 {
		t.Errorf("%d helpers were started, want 2", f.starts)
	}
}

// Conditional writes hold between those who are confined and those who are not.
func TestConditionsAcrossHelpers(t *testing.T) {
	c, _ := sandboxed(t)
	c.put("n", "0")
	var wg sync.WaitGroup
	for i := range 4 {
		var sandbox any
		if i%2 == 0 {
			sandbox = box(fmt.Sprint(i))
		}
		wg.Go(func() {
			for added := 0; added < 6; {
				r := result[struct {
					DataBase64 []byte
					Hash       string
				}](c, "fs/readFile", object{"path": "$U/n", "includeHash": true})
				var n int
				if _, err := fmt.Sscan(string(r.DataBase64), &n); err != nil {
					t.Error(err)
					return
				}
				if c.call("fs/writeFile", object{"path": "$U/n", "dataBase64": b64(fmt.Sprint(n + 1)), "ifMatch": r.Hash, "sandbox": sandbox}) == `{}` {
					added++
				}
			}
		})
	}
	wg.Wait()
	if got := c.content("n"); got != "24" {
		t.Errorf("counted %s, want 24", got)
	}
}

// ServeConfined ends with its input and leaves nothing behind.
func TestConfinedHelperEnds(t *testing.T) {
	a, b := rpc.Pair()
	done := make(chan error, 1)
	go func() { done <- fs.ServeConfinedOn(t.Context(), a) }()
	peer := rpc.NewPeer(b, rpc.PeerConfig{})
	served := make(chan struct{})
	go func() { defer close(served); _ = peer.Serve(t.Context()) }()
	dir := t.TempDir()
	var got raw
	err := peer.Call(t.Context(), "fs/open", &protocol.OpenParams{HandleID: "h", Path: "file://" + dir + "/f", Mode: "replace"}, &got)
	if err != nil {
		t.Fatal(err)
	}
	err = peer.Call(t.Context(), protocol.MethodProcessStart, &protocol.Empty{}, nil)
	if failure := rpc.WireError(err); failure == nil || failure.Code != protocol.CodeMethodNotFound {
		t.Errorf("process/start in the helper: %v", err)
	}
	peer.Close()
	<-served
	if err := <-done; err != nil {
		t.Errorf("ended with %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("it left %v", entries)
	}
}

// A file that the sandbox opens here is read without a helper, and others are left to one.
func TestReadFileHere(t *testing.T) {
	c, f := sandboxed(t)
	c.put("f", "x")
	c.put("denied", "y")
	read := func(want, name string, more object) {
		params := object{"path": "$U/" + name, "sandbox": level("open")}
		for k, v := range more {
			params[k] = v
		}
		c.want(want, "fs/readFile", params)
	}
	read(`{"dataBase64":"eA=="}`, "f", nil)
	if f.starts != 0 {
		t.Error("a helper was started for a file that may be opened here")
	}
	read(`{"dataBase64":"eQ=="}`, "denied", nil)
	read(`{"dataBase64":"eA=="}`, "f", object{"followSymlinks": false})
	if n := f.requests("fs/readFile"); f.starts != 1 || n != 2 {
		t.Errorf("%d helpers, %d requests to them", f.starts, n)
	}
}

// A helper of an earlier generation gets no new requests.
func TestHelpersOfAnEarlierGeneration(t *testing.T) {
	c, f := sandboxed(t)
	c.put("f", "x")
	for generation, starts := range []int{1, 2} {
		f.age.Store(uint64(generation))
		for range 2 {
			c.want(`{"dataBase64":"eA=="}`, "fs/readFile", object{"path": "$U/f", "sandbox": box("one")})
		}
		if f.starts != starts {
			t.Errorf("generation %d: %d helpers, want %d", generation, f.starts, starts)
		}
	}
}
