package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// C-055: a directory that one side removes stays on the other with what was never
// synchronised, and is named; the rest of it goes, and it does not come back.
func TestC055RemovalLeavesTheRest(t *testing.T) {
	for _, here := range []bool{true, false} {
		name := map[bool]string{true: "removed here", false: "removed at the server"}[here]
		t.Run(name, func(t *testing.T) {
			p := newSyncPair(t)
			p.serve()
			removing, keeping := p.there, p.here
			if here {
				removing, keeping = p.here, p.there
			}
			writeFile(t, filepath.Join(p.here, ".wsdignore"), ".env\nnode_modules\n")
			writeFile(t, filepath.Join(p.here, "pkg", "code"), "c")
			writeFile(t, filepath.Join(p.here, "other"), "o")
			if o := p.sync(); o.code != 0 {
				t.Fatal(o)
			}
			stay := []string{".env", "node_modules/x"}
			for _, f := range stay {
				writeFile(t, filepath.Join(keeping, "pkg", f), "SECRET")
			}
			if err := syscall.Mkfifo(filepath.Join(keeping, "pkg", "ff"), 0o644); err != nil {
				t.Fatal(err)
			}
			if o := p.sync(); o.code != exitLeftOut {
				t.Fatal(o)
			}
			if err := os.RemoveAll(filepath.Join(removing, "pkg")); err != nil {
				t.Fatal(err)
			}
			o := p.sync("-v")
			if o.code != exitLeftOut || !strings.Contains(o.stderr, "kept: pkg: "+name+", not ") {
				t.Errorf("status %d, %s", o.code, o.stderr)
			}
			for range 2 {
				for _, f := range stay {
					if text, err := os.ReadFile(filepath.Join(keeping, "pkg", f)); err != nil || string(text) != "SECRET" {
						t.Errorf("%q: %q, %v", f, text, err)
					}
				}
				if _, err := os.Lstat(filepath.Join(keeping, "pkg", "code")); !os.IsNotExist(err) {
					t.Errorf("what was removed is there: %v", err)
				}
				if _, err := os.Lstat(filepath.Join(removing, "pkg")); !os.IsNotExist(err) {
					t.Errorf("the directory has come back: %v", err)
				}
				if o := p.sync(); o.code != exitLeftOut {
					t.Error(o)
				}
			}
		})
	}
}

// C-055, F1(c): what is made in a directory while its removal arrives stays, and is sent.
func TestC055MadeDuringTheRemoval(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	for _, f := range []string{"q/b", "q/c"} {
		writeFile(t, filepath.Join(p.here, f), "1")
	}
	if o := p.sync(); o.code != 0 {
		t.Fatal(o)
	}
	if err := os.RemoveAll(filepath.Join(p.there, "q")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(p.here, "q", "new"), "new")
	writeFile(t, filepath.Join(p.here, "q", "b"), "changed")
	o := p.sync("--on-conflict", "theirs")
	if o.code != 0 || !strings.Contains(o.stderr, "conflict: q/b: ") {
		t.Errorf("status %d, %s", o.code, o.stderr)
	}
	for _, dir := range []string{p.here, p.there} {
		got, err := exec.CommandContext(t.Context(), "find", filepath.Join(dir, "q"), "-type", "f", "-printf", "%P ").Output()
		if err != nil || string(got) != "new " {
			t.Errorf("%s has %q, %v", dir, got, err)
		}
	}
}

// C-055 over each wire: what is ignored stays with its directory, at either end, and is named.
func TestC055OverEachWire(t *testing.T) {
	for _, wire := range []string{"ws:", "http:"} {
		for _, side := range []string{"here", "there"} {
			t.Run(wire+side, func(t *testing.T) {
				p := newSyncPair(t)
				for path, text := range map[string]string{".wsdignore": ".env\nnode_modules\n", "pkg/code": "c", "pkg/sub/f": "f", "other": "o"} {
					writeFile(t, filepath.Join(p.here, path), text)
				}
				p.server = startReal(t, p.command("serve", "--workspace", p.there, "--store", p.store, "--listen", "ws://127.0.0.1:0"))
				p.url = strings.Replace(p.server.url, "ws:", wire, 1)
				p.sync().want(t, 0)
				keeps, removes := p.here, p.there
				if side == "there" {
					keeps, removes = p.there, p.here
				}
				writeFile(t, filepath.Join(keeps, "pkg/.env"), "SECRET")
				writeFile(t, filepath.Join(keeps, "pkg/node_modules/x/y"), "y")
				if err := os.RemoveAll(filepath.Join(removes, "pkg")); err != nil {
					t.Fatal(err)
				}
				p.sync().want(t, 0, `kept: pkg: removed .*: pkg/.env, pkg/node_modules were never synchronised`)
				p.sync().want(t, 0, "nothing has changed")
				want := map[string]string{".wsdignore": ".env\nnode_modules\n", "other": "o"}
				if diff := cmp.Diff(want, readTree(t, removes)); diff != "" {
					t.Errorf("where it was removed (-want +got):\n%s", diff)
				}
				want["pkg/.env"], want["pkg/node_modules/x/y"] = "SECRET", "y"
				if diff := cmp.Diff(want, readTree(t, keeps)); diff != "" {
					t.Errorf("where it stays (-want +got):\n%s", diff)
				}
			})
		}
	}
}
