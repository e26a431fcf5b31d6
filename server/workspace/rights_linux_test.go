package workspace_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/shell"
)

// A user without rights gets everything but the name of the mount point: it is said why,
// and commands start in the directory.
func TestWithoutRights(t *testing.T) {
	if os.Getuid() == 0 {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Dir, cmd.Env = "/", []string{"TMPDIR=/tmp", "PATH=/usr/bin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("as nobody: %v\n%s", err, out)
		}
		return
	}
	for name, tt := range map[string]struct {
		point string
		want  error
	}{
		"a mount point that cannot be made": {"/proc/no/workspace", os.ErrNotExist},
		"one that is there":                 {t.TempDir(), process.ErrNoNamespace},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			cfg.MountPoint = tt.point
			w := open(t, cfg)
			if err := w.Unmounted(); !errors.Is(err, tt.want) {
				t.Errorf("it is said: %v", err)
			}
			for _, cwd := range []string{"", tt.point} {
				if out, code := run(t, w, shell.Request{Command: "pwd; echo x >made", Cwd: cwd}); out != cfg.Dir+"\n" || code != 0 {
					t.Errorf("cwd %q: %q, %d", cwd, out, code)
				}
			}
			if got := entry(t, w, "made"); got.Size != 2 {
				t.Errorf("what it wrote: %+v", got)
			}
		})
	}
}
