package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/protocol"
)

// privateIn has a file, a directory and a missing directory in dir that are private.
func privateIn(dir string) func() []PrivatePath {
	return func() []PrivatePath {
		return []PrivatePath{
			{Path: dir + "/T"}, {Path: dir + "/via/keys", Dir: true}, {Path: dir + "/state", Dir: true}, {Path: dir + "/gone/T"},
		}
	}
}

// What is private is denied whatever the policy says.
func TestSH5PrivatePaths(t *testing.T) {
	for _, w := range []string{"user", "root"} {
		if w == "root" && os.Geteuid() != 0 {
			continue
		}
		t.Run(w, func(t *testing.T) {
			dir := workspace(t)
			fill(t, dir, "T", "real/keys/id", "via -> real", "f")
			e := enforcer(t, Config{force: w, Private: privateIn(dir)})
			needNamespaces(t, e, w)
			for name, s := range map[string]*protocol.Sandbox{
				"read": policy(at("root", "read")), "root write": policy(at("root", "write")), "writable": policy(at("root", "read"), entry(dir, "write")),
				"named":           policy(at("root", "read"), entry(dir+"/T", "read"), entry(dir+"/real/keys", "write"), entry(dir+"/real/keys/id", "write")),
				"named by a link": policy(at("root", "read"), entry(dir+"/via/keys/id", "read")),
				"list":            policy(entry(dir, "read"), entry("/usr", "read"), entry("/lib", "read"), entry("/lib64", "read"), entry("/bin", "read"), entry(filepath.Dir(os.Args[0]), "read")),
			} {
				t.Run(name, func(t *testing.T) {
					b := &box{t: t, e: e, dir: dir, sandbox: withNetwork(s)}
					b.want(
						ok("read f"), fails("read T", "EACCES"), fails("list real/keys", "EACCES"), fails("read real/keys/id", "EACCES"),
						fails("read via/keys/id", "EACCES"), fails("write T", "EACCES|EROFS"), fails("rm T", "EBUSY|EROFS"), fails("mv real/keys k", "EBUSY|EROFS|EXDEV"),
						fails("write real/keys/new", "EACCES|EROFS"), fails("mkdir state", "EEXIST|EROFS"), fails("link T l", "EXDEV|EROFS|EACCES"),
						fails("rm via", "EBUSY|EROFS"), fails("mv via v", "EBUSY|EROFS"),
					)
				})
			}
		})
	}
}

// A policy that lets all be written makes no name impossible to make in the root
// directory for the sake of what is private.
func TestPrivatePathsBringNoMasks(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "T")
	p, err := Resolve(policy(at("root", "write")), Context{})
	if err != nil {
		t.Fatal(err)
	}
	p.Private = []PrivatePath{{Path: dir + "/T"}}
	l, err := layOut(p, new(rights))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range l.Places {
		if at.Mask {
			t.Errorf("%+v", at)
		}
	}
	if p.FullRead() || p.FullWrite() || !p.asksFullWrite() {
		t.Errorf("%+v", p)
	}
}

// Landlock alone hides what is private from a policy that reads everything, and refuses
// what it cannot.
func TestSH5PrivatePathsWithLandlockAlone(t *testing.T) {
	landlockOnly(t) // or there is nothing to test
	dir := workspace(t)
	fill(t, dir, "T", "real/keys/id", "real/other", "via -> real", "f", "sub/g")
	e := enforcer(t, Config{force: "landlock", Private: privateIn(dir)})
	for name, s := range map[string]*protocol.Sandbox{"all": policy(at("root", "read")), "legacy": policy(at("root", "read"))} {
		s.UseLegacyLandlock = name == "legacy"
		b := &box{t: t, e: e, dir: dir, sandbox: withNetwork(s)}
		b.want(
			ok("read f"), ok("read sub/g"), ok("read real/other"), ok("read via/other"), ok("read /etc/passwd"), ok("list ."),
			fails("read T", "EACCES"), fails("read real/keys/id", "EACCES"), fails("read via/keys/id", "EACCES"), fails("write f", "EACCES"),
		)
	}
	_ = listenUnix(t, dir+"/s")
	socket := enforcer(t, Config{force: "landlock", Private: func() []PrivatePath { return []PrivatePath{{Path: dir + "/s"}} }})
	b := &box{t: t, e: socket, dir: dir, sandbox: withNetwork(policy(at("root", "read")))}
	wantUnavailable(t, b.refused("/bin/true"), dir+"/s")
	wantUnavailable(t, (&box{t: t, e: e, dir: dir, sandbox: policy(at("root", "write"))}).refused("/bin/true"), "mount namespace")
}

// Open opens what a helper would open, and leaves everything else to one.
func TestSH4Open(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "T", "real/keys/id", "real/other", "via -> real", "f", "l -> f", "self -> /proc/self", "env -> /proc/self/environ", "key -> via/keys/id", "shm -> /dev/shm")
	if err := unix.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	shared, err := os.CreateTemp("/dev/shm", "wsd-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(shared.Name())
	defer shared.Close()
	opened, err := os.Open(dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	e := enforcer(t, Config{Private: privateIn(dir)})
	ro, ww := policy(at("root", "read")), policy(at("root", "read"), entry(dir, "write"))
	for path, ok := range map[string]bool{
		dir + "/f": true, dir + "/l": true, dir + "/via/other": true, dir + "/via/../f": true, "/etc/passwd": true,
		dir + "/T": false, dir + "/real/keys/id": false, dir + "/via/keys/id": false, dir + "/key": false, dir: false, dir + "/pipe": false,
		dir + "/none": false, "/proc/self/environ": false, "/proc/cpuinfo": false, dir + "/self/environ": false, dir + "/env": false,
		"/proc/self/root" + dir + "/f": false, "/proc/self/cwd/doc.go": false, fmt.Sprintf("/proc/self/fd/%d", opened.Fd()): false,
		fmt.Sprintf("/dev/fd/%d", opened.Fd()): false, shared.Name(): false, dir + "/shm/" + filepath.Base(shared.Name()): false, "/dev/null": false,
	} {
		for name, s := range map[string]*protocol.Sandbox{"ro": ro, "ww": ww} {
			fd, got := e.Open(s, path)
			if got != ok {
				t.Errorf("%s under %s: %v", path, name, got)
			}
			if got {
				f := os.NewFile(uintptr(fd), path)
				if text, err := io.ReadAll(f); err != nil || len(text) == 0 {
					t.Errorf("%s under %s: %q, %v", path, name, text, err)
				}
				_ = f.Close()
			}
		}
	}
	for name, s := range map[string]*protocol.Sandbox{
		"denied": policy(at("root", "read"), entry(dir+"/real", "deny")), "pattern": policy(at("root", "read"), denyGlob(dir+"/*.env")),
		"list": policy(entry(dir, "read")), "wrong": policy(at("project_roots", "read")),
	} {
		if _, ok := e.Open(s, dir+"/f"); ok {
			t.Errorf("opened under %s", name)
		}
	}
}

// Root opens with the rights of a command of root that is confined: without capabilities.
func TestSH4OpenWithoutCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		return // has none
	}
	dir := workspace(t)
	fill(t, dir, "others", "own")
	for name, uid := range map[string]int{"others": 65533, "own": 0} {
		if err := os.Chown(dir+"/"+name, uid, uid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir+"/"+name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := enforcer(t, Config{Private: privateIn(dir)})
	fd, ok := e.Open(policy(at("root", "read")), dir+"/own")
	if !ok {
		t.Fatal("root's own file is not opened")
	}
	_ = unix.Close(fd)
	if _, ok := e.Open(policy(at("root", "read")), dir+"/others"); ok {
		t.Error("another user's file was opened")
	}
	if _, err := os.ReadFile(dir + "/others"); err != nil {
		t.Errorf("the capabilities did not come back: %v", err)
	}
}

// A directory that is mounted twice is private, denied and protected by both names.
func TestSH5MountedTwice(t *testing.T) {
	if os.Geteuid() != 0 {
		return // cannot mount
	}
	dir := workspace(t)
	fill(t, dir, "a/T", "a/k.env", "a/link -> T", "a/.git/config", "b/")
	done := make(chan struct{})
	go func() { // ends with its thread, whose mounts nobody else has
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			t.Logf("no mount namespace: %v", err)
			return
		}
		err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err == nil {
			err = unix.Mount(dir+"/a", dir+"/b", "", unix.MS_BIND, "")
		}
		if err != nil {
			t.Error(err)
			return
		}
		private := []PrivatePath{{Path: dir + "/a/T"}, {Path: dir + "/b/later", Dir: true}}
		var paths realPaths
		defer paths.close()
		if real, _, err := paths.resolve(private); err != nil || !slices.Contains(real, dir+"/b/T") {
			t.Errorf("paths of what is private: %q, %v", real, err)
		}
		p := &Policy{Globs: []string{dir + "/b/*.env"}, Private: private}
		p.add("/", Read)
		p.add(dir, Write)
		p.add(dir+"/a", Write)
		var borrowed rights
		l, err := layOut(p, &borrowed)
		borrowed.giveBack()
		if err != nil {
			t.Error(err)
			return
		}
		got := make(map[string]place)
		for _, at := range l.Places {
			got[at.Path] = at
		}
		for _, name := range []string{"a", "b"} {
			for path, access := range map[string]Access{"T": Deny, "k.env": Deny, "later": Deny, ".git": Read, ".aws": Read} {
				at, is := got[dir+"/"+name+"/"+path]
				if !is || at.Access != access || at.Mask != (path == "later" || path == ".aws") || at.Own != (path == "T") {
					t.Errorf("%s/%s: %+v", name, path, at)
				}
			}
		}
	}()
	<-done
}

// A bind mount that is made later is another path of what is private, also of what is made
// after it.
func TestPrivatePathsByLaterMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		return // cannot mount
	}
	dir := workspace(t)
	fill(t, dir, "a/T", "b/", "c/")
	done := make(chan struct{})
	go func() { // ends with its thread, whose mounts nobody else has
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			t.Logf("no mount namespace: %v", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Error(err)
			return
		}
		var paths realPaths
		defer paths.close()
		var last uint64
		check := func(what string, news bool, want ...string) {
			real, generation, err := paths.resolve([]PrivatePath{{Path: dir + "/a/T"}, {Path: dir + "/a/later"}})
			if err != nil || (generation != last) != news {
				t.Errorf("%s: generation %d after %d, %v", what, generation, last, err)
			}
			last = generation
			for _, name := range []string{"a", "b", "c"} {
				for _, file := range []string{"T", "later"} {
					path := dir + "/" + name + "/" + file
					if got := slices.Contains(real, path); got != slices.Contains(want, name) {
						t.Errorf("%s: %s is private: %v", what, path, got)
					}
					if fd, err := openPermitted(path, real); err == nil {
						_ = unix.Close(fd)
						t.Errorf("%s: %s was opened", what, path)
					}
				}
			}
		}
		check("at first", true, "a")
		check("again", false, "a")
		if err := unix.Mount(dir+"/a", dir+"/b", "", unix.MS_BIND, ""); err != nil {
			t.Error(err)
			return
		}
		check("mounted", true, "a", "b")
		if err := os.WriteFile(dir+"/a/later", nil, 0o600); err != nil {
			t.Error(err)
		}
		check("made", false, "a", "b")
		if err := unix.Mount(dir+"/b", dir+"/c", "", unix.MS_BIND, ""); err != nil {
			t.Error(err)
			return
		}
		check("mounted once more", true, "a", "b", "c")
		if err := unix.Unmount(dir+"/b", 0); err != nil {
			t.Error(err)
		}
		check("unmounted", true, "a", "c")
		check("at last", false, "a", "c")
	}()
	<-done
}

// A server that cannot read its mounts does not know what is private, and does not think so
// later either.
func TestPrivatePathsWithoutMounts(t *testing.T) {
	dir := workspace(t)
	list := []PrivatePath{{Path: dir + "/T"}}
	var paths realPaths
	defer paths.close()
	for range 2 {
		withoutDescriptors(t, func() {
			if real, _, err := paths.resolve(list); real != nil || !errors.Is(err, unix.EMFILE) {
				t.Errorf("got %q, %v", real, err)
			}
		})
	}
	if real, _, err := paths.resolve(list); !slices.Contains(real, dir+"/T") || err != nil {
		t.Errorf("got %q, %v", real, err)
	}
}
