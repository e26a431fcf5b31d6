package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol"
)

// onEveryWay runs a test with each way to namespaces that this user could have.
func onEveryWay(t *testing.T, test func(t *testing.T, e *Enforcer)) {
	t.Helper()
	ways := []string{"user"}
	if os.Geteuid() == 0 {
		ways = append(ways, "root")
	}
	for _, w := range ways {
		t.Run(w, func(t *testing.T) {
			e := enforcer(t, Config{force: w})
			needNamespaces(t, e, w)
			test(t, e)
		})
	}
}

func ok(verb string) [2]string           { return [2]string{verb, "ok"} }
func fails(verb, errno string) [2]string { return [2]string{verb, errno} }

func TestReadOnly(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "f", "sub/g")
		b := &box{t: t, e: e, dir: dir, sandbox: decode(t, strings.ReplaceAll(readOnly, "/srv/demo", dir))}
		b.want(
			ok("read f"), ok("read "+dir+"/sub/g"), ok("list ."), ok("read /etc/passwd"),
			fails("write f", "EROFS"), fails("append f", "EROFS"), fails("trunc f", "EROFS"), fails("write new", "EROFS"),
			fails("mkdir d", "EROFS"), fails("rm f", "EROFS"), fails("rmdir sub", "EROFS"), fails("mv f g", "EROFS"),
			fails("link f g", "EROFS"), fails("symlink f g", "EROFS"), fails("chmod f", "EROFS"), fails("touch f", "EROFS"),
			fails("xattr f", "EROFS"), fails("mkfifo p", "EROFS"), fails("write /tmp/new", "EROFS"),
			fails("write /proc/sys/kernel/core_pattern", "EROFS"), fails("write /dev/new", "EROFS"),
			ok("append /dev/null"), ok("write /dev/shm/scratch"),
		)
		out, code := b.sh("echo hi > f")
		if code == 0 || !strings.Contains(out, "Read-only file system") {
			t.Errorf("status %d: %s", code, out)
		}
	})
}

// The workspace-write profile of exec-rpc.md, 5.2, word for word.
func TestWorkspaceWrite(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir, outside, temp := workspace(t), workspace(t), workspace(t)
		fill(t, dir, "f", "sub/g", ".git/config", ".git/hooks/", "nested/.git/config", "out -> "+outside)
		fill(t, outside, "o")
		// The profile lets all of /tmp be written. To have an outside, root is what
		// the directory itself is named by here.
		text := strings.ReplaceAll(workspaceWrite, "/srv/demo", dir)
		text = strings.ReplaceAll(text, `"kind":"slash_tmp"`, `"kind":"unknown"`)
		b := &box{t: t, e: e, dir: dir, sandbox: decode(t, text), env: []string{"TMPDIR=" + temp}}
		b.want(
			ok("write f"), ok("write new"), ok("mkdir d"), ok("write d/x"), ok("mv d e"), ok("rm e/x"), ok("rmdir e"),
			ok("chmod f"), ok("touch f"), ok("link f hard"), ok("symlink f soft"), ok("write sub/g"), ok("write nested/.git/config"),
			ok("write "+temp+"/x"), ok("read "+outside+"/o"),
			fails("write "+outside+"/o", "EROFS"), fails("write out/o", "EROFS"), fails("write out/new", "EROFS"),
			fails("write ../new", "EROFS"), fails("write /etc/new", "EROFS"), fails("link out/o stolen", "EXDEV"),
			fails("mv out/o stolen", "EXDEV"),
		)
		if got, err := os.ReadFile(dir + "/new"); err != nil || string(got) != "new" {
			t.Errorf("the write did not arrive: %q, %v", got, err)
		}
	})
}

// The same without a change: /tmp can be written.
func TestWorkspaceWriteOpensTmp(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir, tmp := workspace(t), workspace(t)
		b := &box{t: t, e: e, dir: dir, sandbox: decode(t, strings.ReplaceAll(workspaceWrite, "/srv/demo", dir))}
		want := ok("write " + tmp + "/x")
		if real, err := filepath.EvalSymlinks("/tmp"); err != nil || !slashpath.Within(tmp, real) {
			want[1] = "EROFS"
		}
		b.want(want, ok("write x"))
	})
}

func TestProtectedNames(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, ".git/config", ".codex/x", "f")
		b := &box{t: t, e: e, dir: dir, sandbox: inRoot(policy(at("root", "read"), at("project_roots", "write")), dir)}
		b.want(
			ok("read .git/config"), ok("list .git"),
			fails("write .git/config", "EROFS"), fails("write .git/new", "EROFS"), fails("rm .git/config", "EROFS"),
			fails("mv .git git", "EBUSY"), fails("rmdir .git", "EBUSY"), fails("mv f .git/f", "EXDEV"),
			fails("link .git/config stolen", "EXDEV"), fails("chmod .git/config", "EROFS"), fails("exchange .git f", "EBUSY"),
			fails("write .codex/x", "EROFS"),
			// Those that are missing cannot be made.
			fails("mkdir .agents", "EEXIST"), fails("write .agents", "EISDIR"), fails("write .agents/x", "EROFS"),
			fails("symlink f .aws", "EEXIST"), fails("rmdir .agents", "EBUSY"), fails("mv .agents x", "EBUSY"),
			fails("mv f .aws", "EISDIR"),
		)
	})
}

func TestProtectedNamesWithEntriesOfTheirOwn(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, ".git/config")
		b := &box{t: t, e: e, dir: dir, sandbox: inRoot(policy(at("root", "read"), at("project_roots", "write"),
			below("project_roots", ".git", "write"), entry(dir+"/.codex", "write")), dir)}
		b.want(ok("write .git/config"), ok("mkdir .codex"), ok("write .codex/x"), fails("mkdir .agents", "EEXIST"))
	})
}

func TestGitFile(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "modules/m/HEAD", "f")
		if err := os.WriteFile(dir+"/.git", []byte("gitdir: modules/m\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"), entry(dir, "write"))}
		b.want(
			ok("read modules/m/HEAD"), fails("write .git", "EROFS"), fails("rm .git", "EBUSY"),
			fails("write modules/m/HEAD", "EROFS"), fails("mv modules gone", "EBUSY"), ok("write modules/other"),
		)
	})
}

// What is missing is kept from being made for as long as anything of the sandbox
// lives, and nothing is left behind.
func TestMasksEndWithTheSandbox(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"), entry(dir, "write"))}
		// The shell ends at once. What it leaves behind waits for its stdin to end, by
		// another descriptor: a job in the background has the null device as its own.
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		confined := b.startWith(r, &out, "/bin/sh", "-c", "exec 3<&0; setsid sh -c 'echo >&2 left; read x <&3; mkdir .git && echo made' >made 2>left & while ! [ -s left ]; do :; done")
		_ = r.Close()
		if err := confined.Wait(); err != nil {
			t.Fatal(err, out.String())
		}
		if !exists(dir + "/.git") {
			t.Error("the mask is gone before the sandbox is")
		}
		_ = w.Close()
		e.wg.Wait() // for the end of the sandbox
		for _, name := range protectedNames {
			if exists(dir + "/" + name) {
				t.Errorf("%s is left behind", name)
			}
		}
		if made, err := os.ReadFile(dir + "/made"); err != nil || len(made) != 0 {
			t.Errorf("the descendant made .git: %q, %v", made, err)
		}
	})
}

// The next command finds none of the masks of the one that has ended.
func TestMasksAreGoneWhenTheEndIsTold(t *testing.T) {
	e := enforcer(t, Config{})
	dir := workspace(t)
	b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"), entry(dir, "write"))}
	gone := 0
	for range 20 {
		confined, err := e.Confine(t.Context(), b.sandbox, nil, false, launchOf("/bin/true"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := &exec.Cmd{Path: confined.Launch.Path, Args: confined.Launch.Argv, ExtraFiles: confined.Files, SysProcAttr: &syscall.SysProcAttr{}}
		if confined.Attr != nil {
			confined.Attr(cmd.SysProcAttr)
		}
		err = cmd.Run()
		for _, f := range confined.Files {
			_ = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := confined.Started(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		confined.Ended()
		if time.Since(began) >= tidyTime {
			for t.Context().Err() == nil && exists(dir+"/.git") { // a busy machine could not do it meanwhile
				runtime.Gosched()
			}
			continue
		}
		if exists(dir + "/.git") {
			t.Error("the mask is left behind")
		}
		gone++
	}
	if gone == 0 {
		t.Errorf("the end was never told before %v", tidyTime)
	}
}

func (b *box) startWith(stdin *os.File, stdout *strings.Builder, argv ...string) *exec.Cmd {
	b.t.Helper()
	cmd, err := b.startFrom(stdin, stdout, argv...)
	if err != nil {
		b.t.Fatal(err)
	}
	return cmd
}

func TestDenied(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "secret/k", "secret/open/o", "secret/list/l", "key", "link -> secret/k", "f")
		s := inRoot(policy(at("root", "read"), at("project_roots", "write"), entry(dir+"/secret", "deny"),
			entry(dir+"/key", "none"), entry(dir+"/secret/open", "write"), entry(dir+"/secret/list", "read"),
			entry(dir+"/later/x", "deny")), dir)
		b := &box{t: t, e: e, dir: dir, sandbox: s}
		b.want(
			fails("list secret", "EACCES"), fails("read secret/k", "ENOENT"), fails("stat secret/k", "ENOENT"),
			fails("write secret/new", "EROFS"), fails("chmod secret", "EROFS"), fails("read link", "ENOENT"),
			fails("read key", "EACCES"), fails("append key", "EACCES"), fails("chmod key", "EROFS"), fails("rm key", "EBUSY"),
			fails("mv secret gone", "EBUSY"), ok("read secret/open/o"), ok("write secret/open/o"), ok("list secret/open"),
			ok("read secret/list/l"), fails("write secret/list/l", "EROFS"),
			fails("mkdir later", "EEXIST"), fails("write later/x", "EROFS"), ok("write f"),
		)
		s = inRoot(policy(at("root", "read"), entry(dir+"/secret", "deny")), dir)
		b = &box{t: t, e: e, dir: dir, sandbox: s}
		b.want(
			fails("list secret", "EACCES"), fails("read secret/k", "EACCES"), fails("stat secret/k", "EACCES"),
			fails("stat secret/missing", "EACCES"), fails("read link", "EACCES"), ok("stat secret"), ok("list ."),
		)
	})
}

func TestDeniedGlobs(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "a.env", "d/b.env", "d/e/c.env", "keys/one", "f", "real", "l.env -> real")
		s := inRoot(policy(at("root", "read"), at("project_roots", "write"), denyGlob("**/*.env"), denyGlob("keys/**")), dir)
		b := &box{t: t, e: e, dir: dir, sandbox: s}
		b.want(
			fails("read a.env", "EACCES"), fails("read d/b.env", "EACCES"), fails("read d/e/c.env", "EACCES"),
			fails("write a.env", "EROFS"), fails("rm a.env", "EBUSY"), fails("list keys", "EACCES"), fails("read keys/one", "EACCES"),
			fails("read l.env", "EACCES"), fails("read real", "EACCES"), ok("write f"),
		)
		depth := uint64(2)
		s.Permissions.FileSystem.GlobScanMaxDepth = &depth
		b.want(fails("read a.env", "EACCES"), fails("read d/b.env", "EACCES"), ok("read d/e/c.env"))
	})
}

func TestRestrictedRead(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir, outside := workspace(t), workspace(t)
		fill(t, dir, "f", "sub/g", "link -> f", "away -> "+outside+"/o")
		fill(t, outside, "o")
		self, err := filepath.EvalSymlinks(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		b := &box{t: t, e: e, dir: dir, sandbox: policy(at("minimal", "read"), entry(self, "read"), entry(dir, "read"), entry(dir+"/sub", "write"))}
		b.want(
			ok("read f"), ok("read link"), ok("list ."), ok("write sub/g"), ok("read /etc/passwd"), ok("list /usr/bin"), ok("list /bin"),
			fails("write f", "EROFS"), fails("read away", "ENOENT"), fails("read "+outside+"/o", "ENOENT"), fails("stat "+outside, "ENOENT"),
			fails("stat /home", "ENOENT"), fails("stat /var", "ENOENT"), fails("stat /sys", "ENOENT"), ok("list /"),
			fails("write /new", "EROFS"), fails("mkdir /var", "EROFS"), fails("write /usr/new", "EROFS"),
			fails("stat /proc/1/root/home", "EACCES"), ok("append /dev/null"), fails("list /../home", "ENOENT"),
		)
		out, code := b.sh("cat /proc/self/mountinfo")
		if code != 0 {
			t.Fatal(out)
		}
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); f[3] == "/" && f[4] == "/" && !strings.Contains(line, " - tmpfs ") {
				t.Errorf("the host's root is still mounted: %s", line)
			}
		}
	})
}

// A denied file in a directory that another user has closed keeps nothing from starting, and
// stays denied when that user opens the directory.
func TestDeniedInAClosedDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making another user's directory takes root")
	}
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		for _, access := range []string{"read", "write"} {
			dir, others := workspace(t), workspace(t)
			closed := filepath.Join(others, "closed")
			fill(t, others, "closed/a/x.env", "closed/a/y.env", "closed/f")
			if err := os.Chown(closed, 65534, 65534); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(closed, 0); err != nil {
				t.Fatal(err)
			}
			b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"), entry(dir, "write"), entry(others, access),
				denyGlob(others+"/**/*.env"), entry(closed+"/f", "deny"))}
			input, open, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd, err := b.startFrom(input, &out, "/bin/sh", "-c",
				"read line; mv "+closed+" "+dir+"/m; cd "+dir+"; for f in "+closed+"/a/x.env "+closed+"/f m/a/x.env m/f; do cat $f && echo leak; done; echo done")
			_ = input.Close()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(closed, 0o755); err != nil {
				t.Error(err)
			}
			if _, err := open.WriteString("go on\n"); err != nil {
				t.Error(err)
			}
			_ = open.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if got := out.String(); strings.Contains(got, "leak") || !strings.HasSuffix(got, "done\n") {
				t.Errorf("%s: got %s", access, got)
			}
		}
	})
}

func TestRestrictedReadWithoutTheWorkingDirectory(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		b := &box{t: t, e: e, dir: dir, sandbox: policy(at("minimal", "read"))}
		if err := b.refused("/bin/true"); !isErrno(err, syscall.ENOENT) {
			t.Error(err)
		}
	})
}

func TestSecretsOfTheSystemAreNotMinimal(t *testing.T) {
	if os.Geteuid() != 0 {
		return // not readable anyway
	}
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		b := &box{t: t, e: e, dir: "/", sandbox: policy(at("minimal", "read"))}
		if out, code := b.sh("cat /etc/shadow"); code == 0 || !strings.Contains(out, "Permission denied") {
			t.Errorf("status %d: %s", code, out)
		}
	})
}

func TestRootWriteNarrowed(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "f", "ro/g")
		b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "write"), entry(dir+"/ro", "read"))}
		b.want(
			ok("write f"), fails("write ro/g", "EROFS"), fails("mv ro gone", "EBUSY"),
			fails("write /proc/sys/kernel/core_pattern", "EROFS"), fails("write /sys/kernel/uevent_helper", "EROFS"),
			fails("read /dev/vda", "ENOENT"), fails("read /dev/kmsg", "ENOENT"),
		)
		e.wg.Wait() // for the end of the sandbox
		if exists("/.git") {
			t.Error("the mask in the root directory is left behind")
		}
	})
}

func TestExplicitDevices(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		name := "wsd-test-" + filepath.Base(dir)
		if err := os.WriteFile("/dev/shm/"+name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove("/dev/shm/" + name) })
		b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"), entry("/dev/shm", "write"))}
		b.want(ok("write /dev/shm/"+name), ok("append /dev/null"), fails("read /dev/kmsg", "ENOENT"))
		if got, err := os.ReadFile("/dev/shm/" + name); err != nil || string(got) != "new" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// A policy that restricts no file keeps the program off the network all the same.
func TestNetworkOnly(t *testing.T) {
	dir := workspace(t)
	for _, text := range []string{
		`{"permissions":{"type":"external","network":"restricted"},"windowsSandboxLevel":"disabled"}`,
		`{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"unrestricted"}},"windowsSandboxLevel":"disabled"}`,
		object(specialEntry("write", `"kind":"root"`)),
	} {
		b := &box{t: t, e: enforcer(t, Config{}), dir: dir, sandbox: decode(t, text)}
		b.want(ok("write x"), ok("mkdir .git"), ok("rmdir .git"), fails("socket 2", "EPERM"), fails("uring", "EPERM"))
	}
}

// Without anything to restrict there is no helper at all.
func TestUnconfined(t *testing.T) {
	dir := workspace(t)
	for _, text := range []string{
		`{"permissions":{"type":"disabled"},"windowsSandboxLevel":"disabled"}`,
		`{"permissions":{"type":"external","network":"enabled"},"windowsSandboxLevel":"disabled"}`,
		`{"permissions":{"type":"managed","network":"enabled","file_system":{"type":"unrestricted"}},"windowsSandboxLevel":"disabled"}`,
	} {
		b := &box{t: t, e: enforcer(t, Config{force: "none"}), dir: dir, sandbox: decode(t, text)}
		b.want(ok("write x"), ok("socket 2"))
	}
}

func TestNetwork(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		l, addr := listen(t)
		defer l.Close() //nolint:errcheck // test
		sock := dir + "/sock"
		ul := listenUnix(t, sock)
		defer ul.Close() //nolint:errcheck // test
		s := inRoot(policy(at("root", "read"), at("project_roots", "write")), dir)
		b := &box{t: t, e: e, dir: dir, sandbox: s}
		b.want(
			fails("socket 2", "EPERM"), fails("socket 10", "EPERM"), fails("socket 16", "EPERM"), fails("socket 40", "EPERM"),
			ok("socket 1"), fails("dgram 1", "EPERM"), ok("pair"), fails("dial "+addr, "EPERM"),
			fails("connect "+sock, "EPERM"), fails("listen unix own", "EPERM"), fails("uring", "EPERM"), fails("attach 2147483647", "EPERM"),
		)
		if out, _ := b.sh("cat /proc/net/dev | grep -c :"); strings.TrimSpace(out) != "1" {
			t.Errorf("network devices besides lo: %s", out)
		}
		b.sandbox = withNetwork(s)
		b.want(ok("socket 2"), ok("dial "+addr), ok("connect "+sock), ok("listen unix own"), ok("pair"), ok("dgram 1"),
			fails("uring", "EPERM"), fails("attach 2147483647", "ESRCH"))
	})
}

func isErrno(err error, want syscall.Errno) bool { return err != nil && errnoOf(err) == want }

func TestManagedNetwork(t *testing.T) {
	e := enforcer(t, Config{})
	s := policy(at("root", "read"))
	for _, m := range []*protocol.ManagedNetwork{{LoopbackPorts: []uint16{80}}, {AllowLocalBinding: true}} {
		_, err := e.Confine(t.Context(), s, m, true, launchOf("/bin/true"))
		wantUnavailable(t, err, "loopback ports")
	}
	for _, m := range []*protocol.ManagedNetwork{nil, {}} {
		p := &Policy{Network: true}
		if err := manage(p, m); err != nil || p.Network {
			t.Errorf("managed %v: network %v, %v", m, p.Network, err)
		}
	}
	// Not enforced, it is ignored.
	b := &box{t: t, e: e, dir: "/", sandbox: s}
	b.want(fails("socket 2", "EPERM"))
}

// Root's other powers end at the sandbox as well.
func TestNothingOfRootIsLeft(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "f")
		b := &box{t: t, e: e, dir: dir, sandbox: withNetwork(inRoot(policy(at("root", "read"), at("project_roots", "write")), dir))}
		out, _ := b.sh("grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -s '\\t\\n' ' '")
		want := "CapInh: 0000000000000000 CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 CapAmb: 0000000000000000 NoNewPrivs: 1 "
		if os.Geteuid() == 0 && out != want {
			t.Errorf("%s", out)
		}
		b.want(fails("mknod dev", "EPERM"))
		if err := unix.Access("/dev/vda", unix.R_OK); err == nil {
			b.want(fails("read /dev/vda", "ENOENT"))
		}
	})
}
