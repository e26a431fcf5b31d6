package disk_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nobodyEnv says that the test binary runs as somebody without rights.
const nobodyEnv = "WSD_DISK_TEST_NOBODY"

// TestWithoutRights: what may not be read stays as it was known, and what a mode keeps us
// out of is written all the same, if it is ours. The superuser may do everything, so for
// him another process tests that.
func TestWithoutRights(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	both(t, func(t *testing.T, b *bench) {
		b.write("d/f", "1")
		b.write("d/e/g", "2")
		b.write("h", "3")
		quiet(b)
		b.write("d/e/g", "changed")
		b.must(os.Chmod(b.path("d/e"), 0))
		b.must(os.Chmod(b.path("h"), 0))
		b.must(os.Chmod(b.path("d/f"), 0o200))
		b.settle()
		want := map[string]string{"d": "dir 0755", "d/e": "dir 0000", "d/e/g": "file 0644 (gone)", "h": "file 0000 3", "d/f": "file 0200 1"}
		if diff := cmp.Diff(want, b.inTree()); diff != "" {
			t.Errorf("tree (-want +got):\n%s", diff)
		}
		// An entry gets where a command could not.
		b.apply(b.file("/workspace/d/e/new", "pushed", 0), folder("/workspace/d", 0o500), b.file("/workspace/d/i", "too", 0o400), b.file("/workspace/h", "33", 0))
		b.must(os.Chmod(b.path("d/e"), 0o700))
		b.must(os.Chmod(b.path("d/e/new"), 0o600))
		b.must(os.Chmod(b.path("d"), 0o755))
		b.must(os.Chmod(b.path("d/f"), 0o600))
		b.must(os.Chmod(b.path("h"), 0o600))
		b.settle()
		b.want(map[string]string{
			"d": "dir 0755", "d/e": "dir 0700", "d/e/g": "file 0644 changed", "d/e/new": "file 0600 pushed", "d/f": "file 0600 1",
			"d/i": "file 0400 too", "h": "file 0600 33",
		})
		b.must(os.Chmod(b.path("d/e"), 0o500))
		b.must(os.Chmod(b.path("d"), 0o300))
		b.apply(remove("/workspace/d"))
		b.want(map[string]string{"h": "file 0600 33"})
	})
}

// A directory that keeps us out is opened up for what is in it. It is closed again when the
// call ends meanwhile, and its mode is not taken for a command's.
func TestOpenedUpIsClosed(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	both(t, func(t *testing.T, b *bench) {
		b.must(os.Mkdir(b.path("d"), 0o755))
		b.must(os.Chmod(b.path("d"), 0))
		b.pend(b.file("/workspace/d/new", "pushed", 0o644))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b.gate.viewed = func() {
			if info, err := os.Lstat(b.path("d")); err == nil && info.Mode().Perm() != 0 {
				cancel()
			}
		}
		if err := b.ws.Settle(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("settled after the call had ended: %v", err)
		}
		b.gate.viewed = nil
		b.settle()
		info, err := os.Lstat(b.path("d"))
		if err != nil || info.Mode().Perm() != 0 {
			t.Errorf("the directory: %v, %v", info, err)
		}
		if mode := b.inTree()["d"]; mode != "dir 0000" {
			t.Errorf("the tree: %s", mode)
		}
		b.must(os.Chmod(b.path("d"), 0o755)) // for the test's end
		b.settle()
		b.want(map[string]string{"d": "dir 0755", "d/new": "file 0644 pushed"})
	})
}

func asNobody(t *testing.T) {
	if os.Getenv(nobodyEnv) != "" {
		t.Fatal("nobody has become the superuser")
	}
	dir, err := os.MkdirTemp("", "wsd-nobody-") //nolint:usetesting // The one of the test is closed to others.
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "test")
	if err := os.WriteFile(self, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, nobodyEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}
