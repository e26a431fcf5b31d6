package changes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	iofs "io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

func TestWireRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawEntry.Draw(rt, "entry")
		text, err := wire.Append(nil, changes.EntryToWire(&want))
		if err != nil {
			rt.Fatal(err)
		}
		var w protocol.ChangeEntry
		if err := json.Unmarshal(text, &w); err != nil {
			rt.Fatal(err)
		}
		got, err := changes.EntryFromWire(&w)
		if err != nil || cmp.Diff(want, got) != "" {
			rt.Errorf("%s: %v\n%s", text, err, cmp.Diff(want, got))
		}
	})
}

func TestFromWireRefuses(t *testing.T) {
	hash := object("alpha").Hash.String()
	chunk := func(hash string, size int64) string { return fmt.Sprintf(`{"hash":%q,"size":%d}`, hash, size) }
	for _, form := range []string{
		`{"kind":"hardlink","rev":1,"path":"/a"}`,
		`{"kind":"","rev":1,"path":"/a"}`,
		`{"kind":"dir","rev":1,"path":"/a","mode":493}`,
		`{"kind":"dir","rev":1,"path":"/a","mtime":1}`,
		`{"kind":"dir","rev":1,"path":"/a","mode":-1,"mtime":1}`,
		`{"kind":"dir","rev":1,"path":"/a","mode":493,"mtime":9007199254740992}`,
		`{"kind":"dir","rev":9007199254740992,"path":"/a","mode":493,"mtime":1}`,
		`{"kind":"dir","rev":1,"path":"a","mode":493,"mtime":1}`,
		`{"kind":"symlink","rev":1,"path":"/a","mode":511,"mtime":1}`,
		`{"kind":"symlink","rev":1,"path":"/a","mode":511,"mtime":1,"target":""}`,
		`{"kind":"symlink","rev":1,"path":"/a","mode":511,"mtime":1,"target":"a\u0000"}`,
		`{"kind":"delete","rev":1,"path":"/a/"}`,
		`{"kind":"delete","rev":1,"path":"/a","prior":"ABC"}`,
		`{"kind":"delete","rev":1,"path":"/a","renamedTo":"b"}`,
		`{"kind":"delete","rev":1,"path":"/a","renamedTo":"/../b"}`,
		`{"kind":"delete","rev":1,"path":"/a","renamedTo":"/` + strings.Repeat("b", tree.MaxPath) + `"}`,
		`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":1,"size":0}`,
		`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":1,"chunks":[]}`,
		`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":1,"size":1,"chunks":[]}`,
		`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":1,"size":4,"chunks":[` + chunk(hash, 5) + `]}`,
		`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":1,"size":5,"chunks":[` + chunk(hash[1:], 5) + `]}`,
		`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":1,"size":5,"chunks":[` + chunk(strings.Repeat("x", 64), 5) + `]}`,
		`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":1,"size":10,"chunks":[` + chunk(hash, 5) + "," + chunk(hash, 5) + `]}`,
		`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":1,"size":0,"chunks":[` + chunk(hash, 0) + `]}`,
		`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":1,"size":524289,"chunks":[` + chunk(hash, 524289) + `]}`,
		`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":1,"size":-5,"chunks":[` + chunk(hash, -5) + `]}`,
	} {
		var w protocol.ChangeEntry
		if err := json.Unmarshal([]byte(form), &w); err != nil {
			t.Fatal(form, err)
		}
		if _, err := changes.EntryFromWire(&w); changes.Code(err) != "EINVAL" || changes.Path(err) != w.Path {
			t.Errorf("%s: %v", form, err)
		}
	}
	// What other kinds have is not looked at, and of the mode the permissions are kept.
	var w protocol.ChangeEntry
	if err := json.Unmarshal([]byte(`{"kind":"dir","rev":1,"path":"/a","mode":16877,"mtime":1.5,"size":-1,"chunks":[{"hash":"","size":-1}],"target":""}`), &w); err != nil {
		t.Fatal(err)
	}
	want := tree.Entry{Kind: tree.KindDir, Rev: 1, Path: "/a", Mode: 0o755, MTime: time.UnixMilli(1)}
	if got, err := changes.EntryFromWire(&w); err != nil || cmp.Diff(want, got) != "" {
		t.Error(err, cmp.Diff(want, got))
	}
}

func TestCursorWire(t *testing.T) {
	for _, c := range []tree.Cursor{{}, tree.At(5), tree.AtPath(5, ""), tree.AtPath(5, "/a"), tree.AtPath(tree.MaxRev, "not a path")} {
		if got, err := changes.CursorFromWire(changes.CursorToWire(c)); err != nil || got != c {
			t.Errorf("%v became %v, %v", c, got, err)
		}
	}
	long := strings.Repeat("x", tree.MaxPath+1)
	for _, c := range []protocol.Cursor{{Rev: -1}, {Rev: tree.MaxRev + 1}, {Rev: 1, Path: &long}} {
		if _, err := changes.CursorFromWire(c); changes.Code(err) != "EINVAL" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestErrors(t *testing.T) {
	far := &changes.Error{Code: "EUNKNOWN_HASH", Name: "WorkspaceFsError", Err: errors.New("nobody has that")}
	for _, tt := range []struct {
		err              error
		code, name, path string
	}{
		{nil, "", "Error", ""},
		{errCut, "", "Error", ""},
		{&iofs.PathError{Op: "apply", Path: "/p", Err: tree.ErrIsDirectory}, "EISDIR", "WorkspaceFsError", "/p"},
		{fmt.Errorf("x: %w", &tree.MissingError{}), "EUNKNOWN_HASH", "WorkspaceFsError", ""},
		{fmt.Errorf("x: %w", far), "EUNKNOWN_HASH", "WorkspaceFsError", ""},
		{&changes.Error{Code: "EPACK_PROTOCOL", Err: errCut}, "EPACK_PROTOCOL", "PackProtocolError", ""},
		{&changes.Error{Code: "EPROTOCOL", Err: errCut}, "EPROTOCOL", "Error", ""},
		{&changes.Error{Code: "ESOMETHING", Name: "Other", Path: "/q", Err: errCut}, "ESOMETHING", "Other", "/q"},
	} {
		if code, name, path := changes.Code(tt.err), changes.Name(tt.err), changes.Path(tt.err); code != tt.code || name != tt.name || path != tt.path {
			t.Errorf("%v: %s, %s, %s", tt.err, code, name, path)
		}
	}
	// An error of a peer elsewhere is found by its code.
	if !errors.Is(far, tree.ErrUnknownHash) || errors.Is(far, tree.ErrIsDirectory) || errors.Is(far, errCut) {
		t.Error("errors.Is")
	}
	if plain := (&changes.Error{Err: errCut}); errors.Is(plain, errOther) || !errors.Is(plain, errCut) {
		t.Error("errors.Is without a code")
	}
}

var errOther = errors.New("another")

// Peers take an error with one of these phrases for a dead connection (sync.md section
// 16), so no text of ours has one.
func TestNoMessageLooksLikeADeadTransport(t *testing.T) {
	phrases := []string{
		"rpc session was shut down", "rpc stub after it has been disposed", "rpc was canceled", "websocket is not open", "websocket closed",
		"socket hang up", "connection refused", "econnrefused", "econnreset", "network is unreachable", "container exited",
	}
	texts := 0
	for _, dir := range []string{".", "pack", "../tree", "../disk", "../../server/sqlite", "../../client/mirror"} {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+f.Name(), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					texts++
					for _, p := range phrases {
						if strings.Contains(strings.ToLower(lit.Value), p) {
							t.Errorf("%s/%s has %s", dir, f.Name(), lit.Value)
						}
					}
				}
				return true
			})
		}
	}
	if texts < 200 {
		t.Errorf("only %d texts were looked at", texts)
	}
}
