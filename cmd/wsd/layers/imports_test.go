package layers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/wsd-dev/wsd"

// table says, for each package, which others of ours its code may import. A name
// that ends in /... stands for the package and all below it. The first row that
// fits a package counts; a package that no row fits fails the test, so that every
// new one is given its place; a row may be there before its package. Tests may import what they like, short of a cycle.
var table = []struct {
	pkg string
	may []string
}{
	{"protocol/wire", nil},
	{"protocol", []string{"protocol/wire"}},
	// It moves no bytes and knows no wire: all that wait for sockets and pipes stand on it.
	{"protocol/handoff", nil},
	{"protocol/bufpool", nil},
	{"protocol/rpc", []string{"protocol", "protocol/bufpool", "protocol/handoff", "protocol/wire"}},
	{"protocol/rpc/...", []string{"protocol", "protocol/bufpool", "protocol/wire", "protocol/rpc"}},
	{"protocol/capnweb/...", []string{"protocol/bufpool", "protocol/handoff"}},

	{"fs/fileuri", nil},
	// Paths as text: every package may use it.
	{"fs/slashpath", nil},
	// System calls by descriptor: every package that touches the disk may use it.
	{"fs/dirfd", nil},
	// The sandbox confines what process and fs hand it, through interfaces that they
	// declare; the helper process serves fs/* itself.
	{"process/sandbox", []string{"protocol/...", "process", "process/limit", "fs/..."}},
	{"process/limit", []string{"protocol"}},
	{"process/...", []string{"protocol/...", "process/...", "fs/fileuri", "fs/slashpath"}},
	{"fs/sqlitefile", nil},
	// The tree is pure: rows over a store that it declares.
	{"fs/rawname", nil},
	{"fs/tree", []string{"fs/pattern", "fs/rawname", "fs/slashpath"}},
	{"fs/tree/...", []string{"fs/tree"}},
	// Synchronisation knows trees and no directory; the directory knows no peer's wire.
	{"fs/lost", []string{"fs/tree"}},
	{"fs/objects", []string{"fs/dirfd", "fs/tree"}},
	{"fs/lineage", nil},
	{"fs/changes/...", []string{"protocol/...", "fs/lost", "fs/rawname", "fs/slashpath", "fs/tree", "fs/changes/..."}},
	{"fs/disk/...", []string{"fs/dirfd", "fs/lost", "fs/objects", "fs/rawname", "fs/slashpath", "fs/tree", "fs/changes", "fs/watch", "fs/atomicfile", "fs/disk/..."}},
	{"fs/...", []string{"protocol/...", "fs/..."}},

	// The server knows no service; execserver is where they meet.
	{"server/execserver", []string{"protocol/...", "server/...", "process/...", "fs/..."}},
	// The database implements the stores that others declare.
	{"server/sqlite", []string{"fs/dirfd", "fs/slashpath", "fs/tree", "fs/disk", "fs/sqlitefile", "process/eventlog", "protocol"}},
	// The workspace is all of that together, for whoever serves it.
	{"server/workspace", []string{"protocol", "protocol/rpc", "server/sqlite", "process", "process/eventlog", "process/shell", "fs/..."}},
	// The daemon's wire: capnweb over HTTP, in front of what others do.
	{"server/computer/...", []string{"protocol/...", "server", "fs/tree", "fs/changes", "fs/changes/computerwire", "process/shell"}},
	{"server/environment", []string{"protocol/...", "fs/fileuri"}},
	{"server/discovery", []string{"protocol/...", "fs/fileuri"}},
	{"server/httprequest", []string{"protocol/..."}},
	{"server/...", []string{"protocol/...", "server/..."}},

	{"relay/arq", nil},
	{"relay/seal", nil},
	{"relay/trust", []string{"relay/seal"}},
	{"relay/frame", []string{"proto/..."}},
	{"relay/registry", []string{"relay/seal", "relay/frame"}},
	// What stands between the ends has nothing of theirs but keys and the first fields of a frame.
	{"relay/rendezvous/sqlstate", []string{"relay/rendezvous", "fs/sqlitefile"}},
	{"relay/rendezvous/...", []string{"relay/rendezvous/...", "relay/registry", "relay/frame", "relay/seal", "proto/...", "protocol/handoff", "protocol/rpc/..."}},
	{"relay/simnet", []string{"relay", "relay/frame", "proto/...", "protocol/rpc/..."}},
	{"relay/...", []string{"relay/...", "protocol/handoff", "protocol/rpc/...", "protocol", "proto/..."}},
	{"proto/...", []string{"proto/..."}},

	// It gives what process/shell declares.
	{"client/computer/...", []string{"protocol/...", "fs/lost", "fs/tree", "fs/changes", "fs/changes/computerwire", "process/shell"}},
	{"client/mirror", []string{"client/withheld", "fs/changes", "fs/ignore", "fs/lost", "fs/rawname", "fs/slashpath", "fs/tree"}},
	{"client/...", []string{"protocol/...", "fs/fileuri", "fs/lost", "fs/tree", "fs/changes", "client/...", "relay/..."}},
	{"bench/workspace", []string{"bench/...", "client", "fs/tree", "fs/changes"}},
	{"bench/...", []string{"protocol/...", "bench/...", "relay/..."}},
	{"cmd/...", []string{"..."}},
}

// A goPackage is what go list says of a package.
type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	// Tests within and outside of the package.
	TestGoFiles  []string
	XTestGoFiles []string
}

// name is the package's path within the module.
func (p *goPackage) name() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// packages lists the packages of the module as they are built for goos.
func packages(t *testing.T, goos string) []*goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-tags", "e2e,interop",
		"-json=ImportPath,Dir,GoFiles,Imports,TestGoFiles,XTestGoFiles", module+"/...")
	cmd.Env = append(cmd.Environ(), "GOOS="+goos, "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var list []*goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(goPackage)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < len(table)/2 {
		t.Fatalf("go list found %d packages only", len(list))
	}
	return list
}

// fits reports whether pattern stands for the package called name.
func fits(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if root, all := strings.CutSuffix(pattern, "/..."); all {
		return name == root || strings.HasPrefix(name, root+"/")
	}
	return name == pattern
}

// forbidden lists the imports of ours that the table does not let name have, or an
// error when the table says nothing of name.
func forbidden(name string, imports []string) ([]string, error) {
	for _, row := range table {
		if !fits(row.pkg, name) {
			continue
		}
		var bad []string
		for _, path := range imports {
			ours, is := strings.CutPrefix(path, module+"/")
			if is && !slices.ContainsFunc(row.may, func(m string) bool { return fits(m, ours) }) {
				bad = append(bad, ours)
			}
		}
		return bad, nil
	}
	return nil, errors.New("the table of layers has no row for this package")
}

func TestLayers(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		t.Run(goos, func(t *testing.T) {
			for _, p := range packages(t, goos) {
				bad, err := forbidden(p.name(), p.Imports)
				if err != nil {
					t.Errorf("%s: %v", p.name(), err)
				}
				for _, b := range bad {
					t.Errorf("%s must not import %s", p.name(), b)
				}
			}
		})
	}
}

// The check itself must be able to fail.
func TestLayersForbidden(t *testing.T) {
	for _, tt := range []struct {
		name    string
		imports []string
		want    []string
	}{
		{"protocol", []string{"errors", module + "/protocol/rpc"}, []string{"protocol/rpc"}},
		{"server", []string{module + "/protocol/rpc", module + "/process"}, []string{"process"}},
		{"server/execserver", []string{module + "/process", module + "/client"}, []string{"client"}},
		{"client", []string{module + "/fs/fileuri", module + "/fs"}, []string{"fs"}},
		{"cmd/wsd", []string{module + "/server", module + "/client"}, nil},
	} {
		bad, err := forbidden(tt.name, tt.imports)
		if err != nil || !slices.Equal(bad, tt.want) {
			t.Errorf("forbidden(%s, %v) = %v, %v; want %v", tt.name, tt.imports, bad, err, tt.want)
		}
	}
	if _, err := forbidden("util", nil); err == nil {
		t.Error("a package without a row passes")
	}
}

// One comment a package, which says what the package is.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t, "linux") {
		var in []string
		for _, file := range p.GoFiles {
			if commented(t, p.Dir+"/"+file) {
				in = append(in, file)
			}
		}
		if len(in) != 1 {
			t.Errorf("%s: package comment in %v; want it in exactly one file", p.name(), in)
		}
	}
}
