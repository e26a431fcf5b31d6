package sandbox

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user without rights.
const nobody = 65534

// The tests of what is enforced run once more as a user who is not root.
func TestAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // this is how they run already
	}
	dir := workspace(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self := dir + "/test"
	if err := copyProgram(os.Args[0], self); err != nil {
		t.Fatal(err)
	}
	// Who built this could read the sources; the tests need none.
	cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.timeout=2m", "-test.run="+
		"^Test(ReadOnly|WorkspaceWrite|ProtectedNames|GitFile|MaskT.*|Denied|RestrictedRead|RootWriteNarrowed|Network|NoWay.*|"+
		"Processes.*|TheProgram.*|Terminal|LandlockReadOnly|FileHelper)$")
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, quickExit...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		t.Errorf("status %d:\n%s", exit.ExitCode(), failures(string(out)))
	} else if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "--- PASS"); n < 15 {
		t.Errorf("%d tests ran only:\n%s", n, out)
	}
}

// failures leaves out the tests that passed.
func failures(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "--- PASS") && !strings.HasPrefix(line, "=== ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func copyProgram(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // only read
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
