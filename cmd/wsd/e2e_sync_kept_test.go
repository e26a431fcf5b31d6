package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
