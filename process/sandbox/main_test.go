package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
)

// toolWord has the test binary do single system calls, as a confined program.
const toolWord = "sandbox-test-tool"

func TestMain(m *testing.M) {
	Main(map[string]func() error{"fs": serveLines, "hang": hang})
	if len(os.Args) > 1 && os.Args[1] == toolWord {
		os.Exit(runTool(os.Args[2:], os.Stdout))
	}
	os.Exit(m.Run())
}

// serveLines is a role that answers each line, a verb and a path, with what came of it.
func serveLines() error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		verb, path, _ := strings.Cut(in.Text(), " ")
		answer := "ok"
		if err := tool(verb, []string{path}); err != nil {
			answer = describe(err)
		}
		fmt.Println(answer)
	}
	return in.Err()
}

// hang is a role that does not notice the end of its input.
func hang() error {
	fmt.Println(os.Getpid())
	return forever()
}

// quickExit keeps a binary that looks for races from sleeping as it ends.
var quickExit = []string{"GORACE=atexit_sleep_ms=0"}

// A box is a policy under test, and where it is tried.
type box struct {
	t       *testing.T
	e       *Enforcer
	sandbox *protocol.Sandbox
	dir     string // working directory
	env     []string
}

// enforcer returns an Enforcer that is closed with the test.
func enforcer(t *testing.T, cfg Config) *Enforcer {
	t.Helper()
	e := New(cfg)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// start starts argv confined, as the process service does.
func (b *box) start(stdout io.Writer, argv ...string) (*exec.Cmd, error) {
	b.t.Helper()
	return b.startFrom(nil, stdout, argv...)
}

func (b *box) startFrom(stdin io.Reader, stdout io.Writer, argv ...string) (*exec.Cmd, error) {
	b.t.Helper()
	env := append([]string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}, b.env...)
	env = append(env, quickExit...)
	confined, err := b.e.Confine(b.t.Context(), b.sandbox, nil, false, process.Launch{
		Path: argv[0], Argv: argv, Env: env, Dir: b.dir,
	})
	if err != nil {
		return nil, err
	}
	if confined.Type != protocol.SandboxLinux {
		b.t.Errorf("type %q", confined.Type)
	}
	l := confined.Launch
	cmd := &exec.Cmd{
		Path: l.Path, Args: l.Argv, Env: l.Env, Dir: l.Dir, Stdin: stdin, Stdout: stdout, Stderr: stdout,
		ExtraFiles: confined.Files, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if confined.Attr != nil {
		confined.Attr(cmd.SysProcAttr)
	}
	err = cmd.Start()
	for _, f := range confined.Files {
		_ = f.Close()
	}
	if err != nil {
		return nil, err
	}
	if confined.Started != nil {
		if _, err := confined.Started(); err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return nil, err
		}
	}
	return cmd, nil
}

// run runs argv confined and returns what it printed and its exit status.
func (b *box) run(argv ...string) (string, int) {
	b.t.Helper()
	var out bytes.Buffer
	cmd, err := b.start(&out, argv...)
	if err != nil {
		b.t.Fatalf("start %q: %v", argv, err)
	}
	if err := cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			b.t.Fatalf("run %q: %v", argv, err)
		}
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// sh runs a shell script confined.
func (b *box) sh(script string) (string, int) {
	b.t.Helper()
	return b.run("/bin/sh", "-c", script)
}

// refused returns why argv cannot be started under the policy.
func (b *box) refused(argv ...string) error {
	b.t.Helper()
	cmd, err := b.start(io.Discard, argv...)
	if err == nil {
		_ = cmd.Wait()
		b.t.Fatalf("%q was started", argv)
	}
	return err
}

// want runs the test tool confined, once for all of tries, each a line such as
// "write /etc/x", and checks what comes of each: "ok" or an errno.
func (b *box) want(tries ...[2]string) {
	b.t.Helper()
	argv := []string{os.Args[0], toolWord}
	for _, try := range tries {
		argv = append(argv, try[0])
	}
	out, code := b.run(argv...)
	if code != 0 {
		b.t.Fatalf("tool: status %d\n%s", code, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(tries) {
		b.t.Fatalf("tool: %d answers for %d tries\n%s", len(lines), len(tries), out)
	}
	for i, try := range tries {
		if !slices.Contains(strings.Split(try[1], "|"), lines[i]) {
			b.t.Errorf("%s: %s, want %s", try[0], lines[i], try[1])
		}
	}
}

// workspace makes a directory with a few files, and returns its path without links.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wsd-sandbox-") //nolint:usetesting // t.TempDir is out of reach of other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fill makes files with their directories; a name with a slash at the end is a
// directory, and one with " -> " a link.
func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		name, target, isLink := strings.Cut(name, " -> ")
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case isLink:
			err = os.Symlink(target, at)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o755)
		default:
			err = os.WriteFile(at, []byte("text of "+name+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// policy makes a sandbox object with the entries, without network.
func policy(entries ...protocol.PermissionEntry) *protocol.Sandbox {
	return &protocol.Sandbox{
		WindowsSandboxLevel: "disabled",
		Permissions: protocol.Permissions{
			Type: protocol.PermissionsManaged, Network: protocol.NetworkRestricted,
			FileSystem: &protocol.FileSystemPermissions{Type: protocol.FileSystemRestricted, Entries: entries},
		},
	}
}

func entry(path, access string) protocol.PermissionEntry {
	uri := fileuri.Format(path)
	return protocol.PermissionEntry{Path: protocol.PermissionPath{Type: "path", Path: &uri}, Access: access}
}

func at(kind, access string) protocol.PermissionEntry {
	return protocol.PermissionEntry{
		Path: protocol.PermissionPath{Type: "special", Value: &protocol.SpecialPath{Kind: kind}}, Access: access,
	}
}

func below(kind, sub, access string) protocol.PermissionEntry {
	e := at(kind, access)
	e.Path.Value.Subpath = &sub
	return e
}

func denyGlob(glob string) protocol.PermissionEntry {
	return protocol.PermissionEntry{Path: protocol.PermissionPath{Type: "glob_pattern", Pattern: &glob}, Access: protocol.AccessDeny}
}

// inRoot gives a policy its working directory and the one project root.
func inRoot(s *protocol.Sandbox, dir string) *protocol.Sandbox {
	uri := fileuri.Format(dir)
	s.Cwd, s.WorkspaceRoots = &uri, []string{uri}
	return s
}

func withNetwork(s *protocol.Sandbox) *protocol.Sandbox {
	s.Permissions.Network = protocol.NetworkEnabled
	return s
}
