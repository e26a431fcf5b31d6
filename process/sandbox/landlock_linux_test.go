package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
)

// landlockOnly is an Enforcer on a machine without namespaces.
func landlockOnly(t *testing.T) *Enforcer {
	t.Helper()
	if err := kernelLandlock(); err != nil {
		t.Skip("this machine has no Landlock: ", err)
	}
	e := enforcer(t, Config{force: "landlock"})
	if err := e.landlockWorks(t.Context()); err != nil {
		t.Fatalf("the machine has Landlock, but it is not used: %v", err)
	}
	return e
}

func TestLandlockReadOnly(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "f", "sub/")
	b := &box{t: t, e: landlockOnly(t), dir: dir, sandbox: policy(at("root", "read"))}
	b.want(
		ok("read f"), ok("list ."), ok("read /etc/passwd"),
		fails("write f", "EACCES"), fails("append f", "EACCES"), fails("trunc f", "EACCES"), fails("write new", "EACCES"),
		fails("mkdir d", "EACCES"), fails("rm f", "EACCES"), fails("rmdir sub", "EACCES"), fails("mv f g", "EACCES"),
		fails("link f g", "EACCES"), fails("symlink f g", "EACCES"), fails("mkfifo p", "EACCES"),
		fails("chmod f", "EROFS"), fails("touch f", "EROFS"), fails("xattr f", "EROFS"),
		ok("append /dev/null"), fails("write /dev/shm/x", "EACCES"), fails("append /proc/sys/kernel/core_pattern", "EACCES"),
		fails("socket 2", "EPERM"), fails("unshare 0x10000000", "EPERM"), fails("remount", "EPERM"), fails("setuid 12345", "EPERM"),
	)
}

func TestLandlockRestrictedRead(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "f", "sub/g")
	self, err := filepath.EvalSymlinks(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, e: landlockOnly(t), dir: dir, sandbox: policy(entry("/usr", "read"), entry("/bin", "read"), entry("/lib", "read"), entry("/lib64", "read"),
		entry(self, "read"), entry(dir+"/sub", "read"))}
	b.want(ok("read sub/g"), ok("list sub"), fails("read f", "EACCES"), fails("list .", "EACCES"), fails("read /etc/passwd", "EACCES"),
		fails("write sub/g", "EACCES"))
}

// What Landlock alone cannot express is refused, and the answer says what it is.
func TestLandlockRefuses(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "f", "a.env")
	e := landlockOnly(t)
	for words, s := range map[string]*protocol.Sandbox{
		"writing in " + dir:                policy(at("root", "read"), entry(dir, "write")),
		"denying " + dir + "/f":            policy(at("root", "read"), entry(dir+"/f", "deny")),
		"denying " + dir + "/a.env":        policy(at("root", "read"), denyGlob(dir+"/*.env")),
		"protecting parts of a writable d": policy(at("root", "write"), entry(dir+"/gone", "deny")),
	} {
		b := &box{t: t, e: e, dir: dir, sandbox: s}
		wantUnavailable(t, b.refused("/bin/true"), words)
	}
}

// A client may ask for Landlock; it gets it where that is enough.
func TestLegacyLandlock(t *testing.T) {
	landlockOnly(t)
	dir := workspace(t)
	e := enforcer(t, Config{})
	needNamespaces(t, e, "user")
	s := policy(at("root", "read"))
	s.UseLegacyLandlock = true
	b := &box{t: t, e: e, dir: dir, sandbox: s}
	e.cfg.force = "" // both
	b.want(fails("write x", "EACCES"))
	s = policy(at("root", "read"), entry(dir, "write"))
	s.UseLegacyLandlock = true
	b.sandbox = s
	b.want(ok("write x"), fails("mkdir .git", "EEXIST"), fails("write ../"+filepath.Base(dir)+".x", "EROFS"))
}
