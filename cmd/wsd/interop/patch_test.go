//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"testing"
)

const patch = `*** Begin Patch
*** Add File: sub/new.txt
+fresh
*** Update File: old.txt
@@
 one
-two
+TWO
 three
*** Delete File: gone.txt
*** Update File: here.txt
*** Move to: sub/there.txt
@@
-moving
+moved
*** End Patch
`

// patched lays what patch changes into dir; check looks at the outcome.
func unpatched(t *testing.T, dir string) {
	t.Helper()
	for name, content := range map[string]string{
		"old.txt": "one\ntwo\nthree\n", "gone.txt": "bye\n", "here.txt": "moving\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

func wantPatched(t *testing.T, dir string) {
	t.Helper()
	wantFile(t, dir, "sub/new.txt", "fresh\n")
	wantFile(t, dir, "old.txt", "one\nTWO\nthree\n")
	wantFile(t, dir, "sub/there.txt", "moved\n")
	wantNoFile(t, dir, "gone.txt")
	wantNoFile(t, dir, "here.txt")
	// Nobody else's permissions change with the content.
	if info, err := os.Stat(filepath.Join(dir, "old.txt")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("old.txt: %v, %v", info, err)
	}
}

// The client's apply_patch tool edits files through fs/*, whatever its sandbox.
func TestPatch(t *testing.T) {
	for _, sandbox := range []string{"danger-full-access", "workspace-write"} {
		t.Run(sandbox, func(t *testing.T) {
			s := newSetup(t)
			unpatched(t, s.workspace)
			m := newModel(t, custom("apply_patch", patch), say())
			a, thread := newAppServer(t, newHome(t, m, sandbox), s, map[string]any{"sandbox": sandbox})
			a.turn(thread)
			want(t, m.results(t)[0].Text, "Success.", "A sub/new.txt", "M old.txt", "D gone.txt")
			wantPatched(t, s.workspace)
			for _, method := range []string{"fs/readFile", "fs/writeFile", "fs/createDirectory", "fs/remove"} {
				if len(s.tap.Messages(requests(method))) == 0 {
					t.Errorf("the client sent no %s", method)
				}
			}
			for _, w := range s.tap.Messages(requests("fs/writeFile")) {
				var write struct{ Sandbox any }
				w.Params(t, &write)
				if (write.Sandbox != nil) != (sandbox == "workspace-write") {
					t.Errorf("sandbox of a write: %v", write.Sandbox)
				}
			}
			if n := len(s.tap.Messages(requests("process/start"))); n != 0 {
				t.Errorf("%d processes started", n)
			}
		})
	}
}

// A model without the tool calls it as a command, which the client takes for itself.
func TestPatchInShell(t *testing.T) {
	s := newSetup(t)
	unpatched(t, s.workspace)
	m := newModel(t, shell("apply_patch <<'EOF'\n"+patch+"EOF\n"), say())
	a, thread := newAppServer(t, newHome(t, m, "danger-full-access"), s, nil)
	a.turn(thread)
	want(t, m.results(t)[0].Text, "Success.")
	wantPatched(t, s.workspace)
}

// A patch out of the workspace is denied by the server's sandbox or by the client.
func TestPatchOutside(t *testing.T) {
	s, outside := newSetup(t), tempDir(t)
	m := newModel(t, custom("apply_patch", "*** Begin Patch\n*** Add File: "+outside+"/new.txt\n+no\n*** End Patch\n"), say())
	a, thread := newAppServer(t, newHome(t, m, "workspace-write"), s, map[string]any{"sandbox": "workspace-write"})
	a.turn(thread)
	if results := m.results(t); len(results) != 1 {
		t.Errorf("%d tool outputs", len(results))
	}
	wantNoFile(t, outside, "new.txt")
}
