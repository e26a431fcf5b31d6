package main

import (
	"context"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// A liar is a server that says of its files what a test wants, and of each path that it has
// nothing about that it is a file.
type liar struct {
	dirs  map[string][]protocol.DirectoryEntry // by the last name of their paths
	links map[string]string
	peer  *rpc.Peer
	done  chan struct{}
}

func (l *liar) Kind() string  { return "liar" }
func (l *liar) Resumes() bool { return false }

func (l *liar) Connect(context.Context) (rpc.Connection, error) {
	here, there := rpc.Pair()
	l.peer, l.done = rpc.NewPeer(there, rpc.PeerConfig{Handler: l}), make(chan struct{})
	go func() { // ends with the client
		defer close(l.done)
		_ = l.peer.Serve(context.Background())
		_ = l.peer.Close()
	}()
	return here, nil
}

func (l *liar) HandleNotification(context.Context, string, []byte) error { return nil }

func (l *liar) HandleRequest(_ context.Context, req *rpc.Request) {
	var p struct {
		Path string `json:"path" wire:"optional"`
	}
	_ = wire.Unmarshal(req.Params, &p) // not every request has a path
	name := path.Base(p.Path)
	switch req.Method {
	case protocol.MethodInitialize:
		req.ReplyInline(protocol.InitializeResult{SessionID: "s", EnvironmentInfo: protocol.EnvironmentInfo{
			Shell: protocol.Shell{Name: "sh", Path: "/bin/sh"}, Cwd: "file:///srv",
			Capabilities: map[string]bool{protocol.CapFsReadLink: true},
		}}, nil)
	case protocol.MethodFsGetMetadata:
		_, dir := l.dirs[name]
		_, link := l.links[name]
		req.ReplyInline(protocol.Metadata{IsDirectory: dir, IsFile: !dir, IsSymlink: link, Mode: 0o755}, nil)
	case protocol.MethodFsReadDirectory:
		req.ReplyInline(protocol.ReadDirectoryResult{Entries: l.dirs[name]}, nil)
	case protocol.MethodFsReadLink:
		req.ReplyInline(protocol.ReadLinkResult{Target: l.links[name]}, nil)
	case protocol.MethodFsOpen:
		req.ReplyInline(protocol.OpenResult{}, nil)
	case protocol.MethodFsReadBlock:
		req.ReplyInline(protocol.ReadBlockResult{Chunk: []byte("theirs"), EOF: true}, nil)
	default:
		req.ReplyInline(protocol.Empty{}, nil)
	}
}

// copies runs wsd cp with args and returns its messages.
func (l *liar) copies(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stderr strings.Builder
	job, err := parseCopy(args)
	if err != nil {
		t.Fatal(err)
	}
	c := client.Open(l, nil)
	err = job.run(t.Context(), &app{stderr: &stderr}, c, allowFlags{}, false)
	_ = c.Close()
	<-l.done
	return stderr.String(), err
}

func listed(name string, dir, link bool) protocol.DirectoryEntry {
	meta := protocol.Metadata{IsDirectory: dir, IsFile: !dir, IsSymlink: link, Mode: 0o755}
	return protocol.DirectoryEntry{FileName: name, IsDirectory: dir, IsFile: !dir, Metadata: &meta}
}

// A server that lists names which are none writes nothing beside the destination, and each
// of them is a failure. Its other files come over.
func TestSH7NamesThatAreNone(t *testing.T) {
	top := t.TempDir()
	for _, name := range []string{"", ".", "..", "/", "../evil", "/evil", "sub/../../evil", "sub/..", "a/b", "evil\x00", "fine"} {
		for _, dir := range []bool{false, true} {
			for _, raw := range []bool{false, true} {
				entry := listed(name, dir, false)
				if raw {
					entry.Path = "file:///srv/" + strings.NewReplacer("/", "%2F", "\x00", "%00").Replace(name)
				}
				dest := filepath.Join(top, "dest")
				if err := os.MkdirAll(dest, 0o700); err != nil {
					t.Fatal(err)
				}
				l := &liar{dirs: map[string][]protocol.DirectoryEntry{"tree": {entry, listed("good", false, false), listed("sub", true, false)}, "sub": nil, "evil": nil, "fine": nil}}
				text, err := l.copies(t, ":tree/.", dest)
				if name == "fine" && err != nil {
					t.Errorf("%v: %s", err, text)
				}
				if !raw && name != "fine" && (err == nil || strings.Count(text, "\n") != 1) {
					t.Errorf("%q as directory %v: %v: %s", name, dir, err, text)
				}
				// A URI that is none fails the listing as a whole.
				if got, err := os.ReadFile(filepath.Join(dest, "good")); string(got) != "theirs" && !raw {
					t.Errorf("%q: the other file: %q, %v", name, got, err)
				}
				if beside, err := os.ReadDir(top); len(beside) != 1 || err != nil {
					t.Errorf("%q: beside the destination: %v, %v", name, beside, err)
				}
				if err := os.RemoveAll(dest); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// The same name as a link and as a directory, in each order and twice, leads nowhere.
func TestSH7NameIsLinkAndDirectory(t *testing.T) {
	top := t.TempDir()
	outside, dest := filepath.Join(top, "outside"), filepath.Join(top, "dest")
	for _, dir := range []string{outside, dest} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link, dir := listed("x", false, true), listed("x", true, false)
	for _, entries := range [][]protocol.DirectoryEntry{{link, dir}, {dir, link}, {link, dir, link, dir}} {
		l := &liar{
			dirs:  map[string][]protocol.DirectoryEntry{"tree": entries, "x": {listed("f", false, false)}},
			links: map[string]string{"x": outside},
		}
		for range 2 {
			if text, err := l.copies(t, ":tree/.", dest); err == nil {
				t.Errorf("no failure: %s", text)
			}
			if names, err := os.ReadDir(outside); len(names) != 0 || err != nil {
				t.Errorf("outside: %v, %v", names, err)
			}
		}
	}
}

// A tree in which each directory has another one comes to an end.
func TestSH7TreeWithoutEnd(t *testing.T) {
	name := strings.Repeat("x", 200)
	l := &liar{dirs: map[string][]protocol.DirectoryEntry{"tree": {listed(name, true, false)}, name: {listed(name, true, false)}}}
	text, err := l.copies(t, ":tree", filepath.Join(t.TempDir(), "dest"))
	if err == nil || !strings.Contains(text, "its path has more than 4096 bytes") || strings.Count(text, "\n") != 1 {
		t.Errorf("%v: %s", err, text)
	}
}

// A source itself is followed, so that no link of a server takes the place of a destination
// that is neither a file nor a directory.
func TestSH7LinkForDevice(t *testing.T) {
	for _, target := range []string{"/etc/passwd", ""} {
		l := &liar{links: map[string]string{"x": target}}
		device := filepath.Join(t.TempDir(), "device")
		listener, err := net.Listen("unix", device)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := l.copies(t, ":x", device); err == nil { // a socket cannot be opened
			t.Errorf("no failure: %s", text)
		}
		if info, err := os.Lstat(device); err != nil || info.Mode()&os.ModeSocket == 0 {
			t.Errorf("the destination is %v, %v", info, err)
		}
		listener.Close()
		// Below a source it is a link, if it leads somewhere.
		l.dirs = map[string][]protocol.DirectoryEntry{"tree": {listed("x", false, true)}}
		dest := filepath.Join(t.TempDir(), "dest")
		text, err := l.copies(t, ":tree", dest)
		if got, _ := os.Readlink(filepath.Join(dest, "x")); got != target || (err == nil) != (target != "") {
			t.Errorf("a link to %q leads to %q, %v: %s", target, got, err, text)
		}
	}
}
