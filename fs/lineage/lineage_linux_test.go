package lineage_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/fs/lineage"
)

// A bind mount of a directory below another one is in that one.
func TestBindMount(t *testing.T) {
	if os.Getenv("LINEAGE_TOP") == "" {
		top := t.TempDir()
		for _, dir := range []string{"a/b/c", "m", "n"} {
			if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "LINEAGE_TOP="+top)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "no right to mount") || err != nil && len(out) == 0 {
			t.Skipf("no namespaces of mounts: %v", err)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	top := os.Getenv("LINEAGE_TOP")
	path := func(name string) string { return filepath.Join(top, name) }
	for from, to := range map[string]string{"a/b": "m", "a": "n"} {
		if err := syscall.Mount(path(from), path(to), "", syscall.MS_BIND, ""); err != nil {
			t.Fatalf("no right to mount: %v", err)
		}
	}
	for _, tt := range []struct {
		outer, inner string
		want         bool
	}{
		{"a", "m", true}, {"a", "m/c", true}, {"n", "m/c", true}, {"a/b", "m", true}, {"m", "a/b/c", true}, {"m", "n/b/c", true}, {"m", "a", false}, {"m", "n", false},
	} {
		if got := lineage.Holds(of(t, path(tt.outer)), of(t, path(tt.inner))); got != tt.want {
			t.Errorf("%s holds %s: %t", tt.outer, tt.inner, got)
		}
	}
}
