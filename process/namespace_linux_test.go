package process_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
)

// namespace binds a new directory to a new point, and skips where that takes rights that
// the test does not have.
func namespace(t testing.TB) (ns *process.Namespace, dir, point string) {
	t.Helper()
	dir, point = t.TempDir(), t.TempDir()
	ns, err := process.NewNamespace(dir, point)
	if errors.Is(err, syscall.EPERM) && os.Getuid() != 0 {
		t.Skip("making a mount namespace takes CAP_SYS_ADMIN")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.Close)
	return ns, dir, point
}

// output runs a command and returns what it prints.
func output(t testing.TB, ns *process.Namespace, dir string, argv ...string) string {
	t.Helper()
	var spawner process.HostSpawner
	defer spawner.Close()
	child, err := spawner.Start(process.Command{Path: argv[0], Argv: argv, Dir: dir, Namespace: ns})
	if err != nil {
		t.Fatal(err)
	}
	defer child.Process.Close()
	var all []byte
	for _, out := range child.Outputs {
		for {
			b, err := out.Read()
			if err != nil {
				break
			}
			all = append(all, b.Data...)
		}
		_ = out.Close()
	}
	child.Process.Wait()
	return string(all)
}

// Commands see the directory at the point, by its absolute name; this program does not.
func TestNamespaceIsPrivate(t *testing.T) {
	ns, dir, point := namespace(t)
	got := output(t, ns, point, "/bin/sh", "-c", "pwd; echo made > "+point+"/file")
	if got != point+"\n" {
		t.Errorf("pwd in the namespace is %q, want %q", got, point)
	}
	if b, err := os.ReadFile(dir + "/file"); err != nil || string(b) != "made\n" {
		t.Errorf("what a command wrote: %q, %v", b, err)
	}
	if entries, err := os.ReadDir(point); err != nil || len(entries) > 0 {
		t.Errorf("the host sees the directory at the point, too: %v, %v", entries, err)
	}
	if got := output(t, nil, point, "/bin/sh", "-c", "ls"); got != "" {
		t.Errorf("a command of the host's view sees %q", got)
	}
	ns.Do(func() {
		if _, err := os.Stat(point + "/file"); err != nil {
			t.Errorf("Do: %v", err)
		}
	})
}

// All threads that fork have the view, not only the first.
func TestNamespaceOnEachThread(t *testing.T) {
	ns, _, point := namespace(t)
	var meet, all sync.WaitGroup
	threads := min(2, runtime.GOMAXPROCS(0)) // there are no more than processors
	meet.Add(threads)
	for range threads {
		all.Go(func() {
			ns.Do(func() {
				meet.Done()
				meet.Wait() // so that each has a thread of its own
				if _, err := os.Create(point + "/" + t.Name()); err != nil {
					t.Error(err)
				}
			})
		})
	}
	all.Wait()
	if entries, err := os.ReadDir(point); err != nil || len(entries) > 0 {
		t.Errorf("a thread wrote to the host's view: %v, %v", entries, err)
	}
}

// What is mounted on the host later is seen, and nothing of the namespace is on the host.
func TestNamespaceFollowsTheHost(t *testing.T) {
	ns, _, _ := namespace(t)
	later := t.TempDir()
	if err := syscall.Mount("tmpfs", later, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(later, syscall.MNT_DETACH)
	if err := os.WriteFile(later+"/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	shared := strings.Contains(output(t, nil, "/", "/bin/sh", "-c", "head -1 /proc/self/mountinfo"), " shared:")
	_, err := os.Stat("/")
	ns.Do(func() { _, err = os.Stat(later + "/x") })
	if shared && err != nil {
		t.Errorf("the namespace does not see a mount of the host: %v", err)
	}
	if err := exec.Command("/bin/sh", "-c", "! grep -q "+t.Name()+"/001 /proc/self/mountinfo").Run(); err != nil {
		t.Error("a mount of the namespace is on the host")
	}
}

// A process of a client's is started in the view when its directory is in it.
func TestServiceInNamespace(t *testing.T) {
	ns, dir, point := namespace(t)
	if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\npwd\n"
	for name, text := range map[string]string{"tool": script, "bare": "pwd\n"} { // bare has no first line that names a shell
		if err := os.WriteFile(filepath.Join(dir, "sub", name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := connectWith(t, process.Config{Mount: &process.Mount{Point: point, Dir: dir, Namespace: ns}})
	at := func(id, cwd string, argv ...string) *protocol.StartParams {
		p := c.params(id, argv...)
		p.Cwd = fileuri.Format(cwd)
		p.Env["PATH"] = point + "/sub:" + searchPath
		return p
	}
	for id, argv := range map[string][]string{"path": {"tool"}, "relative": {"./tool"}, "absolute": {point + "/sub/tool"}, "text": {"bare"}} {
		if r := c.run(at(id, point+"/sub", argv...)); string(r.out) != point+"/sub\n" {
			t.Errorf("%s: %q", id, r.out)
		}
	}
	if _, err := c.tryStart(at("missing", point+"/nowhere", "pwd")); err == nil || !strings.Contains(err.Error(), point+"/nowhere") {
		t.Errorf("a directory that is missing: %v", err)
	}
	if r := c.run(at("outside", "/", "ls", point)); len(r.out) != 0 {
		t.Errorf("a command outside of the mount point sees %q there", r.out)
	}
}

// Without a view the directory is mapped.
func TestServiceMapsDirectory(t *testing.T) {
	dir := t.TempDir()
	c := connectWith(t, process.Config{Mount: &process.Mount{Point: "/nowhere/workspace", Dir: dir}})
	p := c.params("p", "pwd")
	p.Cwd = "file:///nowhere/workspace"
	if r := c.run(p); string(r.out) != dir+"\n" {
		t.Errorf("pwd: %q, want %q", r.out, dir)
	}
}

// Who has not the right is told so, by an error to look for.
func TestNamespaceWithoutRights(t *testing.T) {
	if os.Getuid() == 0 {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Dir = "/"
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("as nobody: %v\n%s", err, out)
		}
		return
	}
	if _, err := process.NewNamespace("/tmp", "/tmp"); !errors.Is(err, process.ErrNoNamespace) || !errors.Is(err, syscall.EPERM) {
		t.Errorf("got %v", err)
	}
}

func TestNamespaceOfNothing(t *testing.T) {
	namespace(t) // or skip
	if _, err := process.NewNamespace(t.TempDir(), t.TempDir()+"/missing"); !errors.Is(err, process.ErrNoNamespace) || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkNamespaceStart is beside BenchmarkStart of the host's view.
func BenchmarkNamespaceStart(b *testing.B) {
	ns, _, point := namespace(b)
	for _, view := range []struct {
		name string
		ns   *process.Namespace
	}{{"host", nil}, {"namespace", ns}} {
		b.Run(view.name, func(b *testing.B) {
			var spawner process.HostSpawner
			defer spawner.Close()
			for b.Loop() {
				child, err := spawner.Start(process.Command{Path: "/bin/true", Argv: []string{"true"}, Dir: point, Namespace: view.ns})
				if err != nil {
					b.Fatal(err)
				}
				child.Process.Wait()
				for _, out := range child.Outputs {
					_ = out.Close()
				}
				_ = child.Process.Close()
			}
		})
	}
}
