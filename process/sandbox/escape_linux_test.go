package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What could undo the view of the disk is refused, whatever the user is.
func TestNoWayToOtherMounts(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "d/", ".git/config", "secret/k")
		s := withNetwork(inRoot(policy(at("root", "read"), at("project_roots", "write"), entry(dir+"/secret", "deny")), dir))
		for _, network := range []bool{true, false} {
			if !network {
				s.Permissions.Network = "restricted"
			}
			b := &box{t: t, e: e, dir: dir, sandbox: s}
			b.want(
				fails("remount", "EPERM"), fails("remountat "+dir+"/.git", "EPERM"), fails("bind / d", "EPERM"),
				fails("bind "+dir+" .git", "EPERM"), fails("tmpfs d", "EPERM"), fails("tmpfs .git", "EPERM"),
				fails("umount "+dir+"/secret", "EPERM"), fails("umount "+dir+"/.git", "EPERM"), fails("umount "+dir, "EPERM"),
				fails("opentree", "EPERM"), fails("setattr", "EPERM"), fails("fsopen", "EPERM"), fails("chroot d", "EPERM"),
				fails("pivot", "EPERM"), fails("handle", "EPERM"), fails("setns /proc/self/ns/mnt", "EPERM"),
				fails(fmt.Sprintf("unshare %#x", unix.CLONE_NEWUSER), "EPERM"), fails(fmt.Sprintf("unshare %#x", unix.CLONE_NEWNS), "EPERM"),
				fails(fmt.Sprintf("clone %#x", unix.CLONE_NEWUSER), "EPERM"), fails(fmt.Sprintf("clone %#x", unix.CLONE_NEWNS), "EPERM"),
				ok("clone 0"), fails("clone3", "ENOSYS"),
				fails("keyctl", "EPERM"), fails("bpf", "EPERM"), fails("uffd", "EPERM"), fails("perf", "EPERM"), fails("uring", "EPERM"),
				fails("getfd", "EPERM"), fails("tiocsti", "EPERM"), fails("tiocsti64", "EPERM"), fails("setuid 12345", "EPERM|EINVAL"),
				fails("read "+dir+"/secret/k", "EACCES"), fails("write .git/config", "EROFS"),
			)
		}
	})
}

// Processes outside are out of reach, also those of the same user: their memory, their
// files and their view of the disk.
func TestProcessesOutsideAreOutOfReach(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "secret/k")
		s := withNetwork(inRoot(policy(at("root", "read"), at("project_roots", "write"), entry(dir+"/secret", "deny")), dir))
		b := &box{t: t, e: e, dir: dir, sandbox: s}
		// Another sandbox, with more rights, run by the same user without capabilities.
		other := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"), entry("/dev/shm", "write"))}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		peer, err := other.startFrom(r, os.Stderr, "/bin/cat")
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range []int{os.Getpid(), peer.Process.Pid} {
			p := fmt.Sprintf("/proc/%d/", pid)
			tries := [][2]string{
				fails("read "+p+"root"+dir+"/secret/k", "EACCES"), fails("list "+p+"root/", "EACCES"), fails("list "+p+"cwd/", "EACCES"),
				fails("stat "+p+"fd/0", "EACCES"), fails("read "+p+"environ", "EACCES"), fails("read "+p+"mem", "EACCES"), fails("append "+p+"mem", "EROFS"),
				fails(fmt.Sprintf("attach %d", pid), "EPERM"),
				fails("setns "+p+"ns/mnt", "EACCES"),
			}
			if landlockABI() >= landABIScopes {
				tries = append(tries, fails(fmt.Sprintf("kill %d", pid), "EPERM"))
			}
			b.want(tries...)
		}
		_ = w.Close()
		if err := peer.Wait(); err != nil {
			t.Error(err)
		}
		_ = r.Close()
		b.want(fails("read /proc/self/root"+dir+"/secret/k", "EACCES"), fails("write /proc/self/root/etc/new", "EROFS"),
			fails("write /proc/thread-self/root/etc/new", "EROFS"), fails("read /proc/self/cwd/secret/k", "EACCES"))
	})
}

// Moving things about within a writable root opens nothing.
func TestRenamesOpenNothing(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "w/a/b/protected/x", "w/a/b/secret/k", "w/free/f", ".git/c")
		s := policy(at("root", "read"), entry(dir+"/w", "write"), entry(dir+"/w/a/b/protected", "read"), entry(dir+"/w/a/b/secret", "deny"))
		b := &box{t: t, e: e, dir: dir, sandbox: s}
		b.want(
			fails("mv w/a/b/protected w/a/b/p", "EBUSY"), fails("mv w/a/b w/a/p", "EBUSY"), fails("mv w/a w/p", "EBUSY"),
			fails("mv w/a/b w/p", "EXDEV"),
			fails("exchange w/a w/free", "EBUSY"), fails("exchange w/a/b/protected w/free", "EXDEV"), fails("mv w p", "EROFS"),
			ok("mv w/free w/moved"), ok("symlink a/b/secret w/s"), fails("list w/s", "EACCES"),
			ok("symlink a/b/protected/x w/x"), fails("write w/x", "EROFS"), ok("write w/a/b/new"), ok("write w/a/new"),
		)
	})
}

// A link in a writable root leads where a path would.
func TestLinksLeadNowhereElse(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir, outside := workspace(t), workspace(t)
		fill(t, outside, "f")
		b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"), entry(dir, "write"))}
		b.want(
			ok("symlink "+outside+" d"), ok("read d/f"), fails("write d/f", "EROFS"), fails("write d/new", "EROFS"), fails("link d/f g", "EXDEV"),
			ok("symlink "+outside+"/new dangling"), fails("write dangling", "EROFS"),
		)
		// The next command's policy does not follow the link that this one left behind.
		b.sandbox = policy(at("root", "read"), entry(dir, "write"), entry(dir+"/d", "write"))
		b.want(ok("read d/f"), fails("write d/f", "EROFS"), fails("write d/new", "EROFS"), ok("write new"))
	})
}

func TestSetUserIDProgramsGainNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		return // cannot make one for another user
	}
	dir := workspace(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	id, err := exec.LookPath("id")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/id", text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir+"/id", 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir+"/id", os.ModeSetuid|os.ModeSetgid|0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(dir+"/id", "-u").Output(); err != nil || strings.TrimSpace(string(out)) != "65534" {
		t.Skipf("set-user-ID programs do not work here: %s, %v", out, err)
	}
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"))}
		if out, code := b.run(dir+"/id", "-u"); code != 0 || strings.TrimSpace(out) != "0" {
			t.Errorf("status %d: %s", code, out)
		}
	})
}
