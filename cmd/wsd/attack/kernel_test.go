//go:build attack && linux

package attack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

// A try is what a confined program does, and how that must end: "ok", or the names of
// errors with | between them.
type try struct{ do, want string }

// tries has a confined program do each.
func (s *server) tries(c *client.Client, sandbox *protocol.Sandbox, tries ...try) {
	s.w.Helper()
	argv := []string{tool, toolWord}
	for _, t := range tries {
		argv = append(argv, t.do)
	}
	r, err := s.run(c, sandbox, argv...)
	if err != nil {
		s.w.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	if len(got) != len(tries) {
		s.w.Fatalf("%d answers to %d tries: %+v", len(got), len(tries), r)
	}
	for i, t := range tries {
		if !strings.Contains("|"+t.want+"|", "|"+got[i]+"|") {
			s.w.Errorf("%s: %s, want %s", t.do, got[i], t.want)
		}
	}
}

// victim starts a process of the world's user that has nothing to do with the server.
func (w *world) victim() int {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), "sleep", "600")
	cmd.SysProcAttr = credential(w.uid)
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// network is a sandbox that leaves the file system alone and has no network.
func network(text string) *protocol.Sandbox {
	s := &protocol.Sandbox{
		Permissions: protocol.Permissions{Type: text, Network: protocol.NetworkRestricted}, WindowsSandboxLevel: "disabled",
	}
	if text == protocol.PermissionsManaged {
		s.Permissions.FileSystem = &protocol.FileSystemPermissions{Type: "unrestricted"}
	}
	return s
}

// A command changes no other process: neither its limits nor its priority.
func TestSM1OtherProcessesAreLeftAlone(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		legacy := w.ro()
		legacy.UseLegacyLandlock = true
		for _, box := range []*protocol.Sandbox{w.ro(), w.ww(w.dir), legacy, network("external")} {
			for _, pid := range []int{s.PID, w.victim(), 1} {
				var list []try
				for _, do := range []string{
					"prlimit %d", "setpriority 0 %d", "setpriority 1 %d", "ioprio 1 %d", "ioprio 2 %d", "setaffinity %d",
					"setscheduler %d", "setparam %d", "setattr %d", "migrate %d", "movepages %d", "kcmp %d", "mrelease %d", "madvise %d",
				} {
					list = append(list, try{fmt.Sprintf(do, pid), "EPERM"})
				}
				s.tries(c, box, list...)
			}
			s.tries(c, box,
				try{"setpriority 2 0", "EPERM"}, try{"setpriority 2 " + fmt.Sprint(w.uid), "EPERM"},
				try{"ioprio 3 0", "EPERM"}, try{"ioprio 3 " + fmt.Sprint(w.uid), "EPERM"},
				try{"prlimit 4294967296", "ok"}, // the kernel takes the lower half: the program itself
				try{"prlimit 4294967297", "EPERM"},
				// What programs do to themselves goes on working.
				try{"prlimit 0", "ok"}, try{"getlimit 0", "ok"}, try{"getlimit self", "ok"}, try{"setpriority 0 0", "ok"},
				try{"setpriority 1 0", "ok"}, try{"ioprio 1 0", "ok"}, try{"setaffinity 0", "ok"}, try{"setscheduler 0", "ok"},
				try{"setparam 0", "ok"}, try{"setattr 0", "ok"}, try{"threads", "ok"},
			)
		}
		r := s.sh(c, w.ro(), "ulimit -c 0 && ulimit -n 100 && nice -n 5 true && echo fine")
		if r.stdout != "fine\n" {
			t.Errorf("ulimit and nice: %+v", r)
		}
	})
}

// The modes of the host's devices stay as they are, and the devices can be used.
func TestSM2DevicesKeepTheirModes(t *testing.T) {
	names := []string{"null", "zero", "full", "random", "urandom", "tty"}
	before := make(map[string]unix.Stat_t)
	stat := func(name string) (st unix.Stat_t) {
		if err := unix.Stat("/dev/"+name, &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	for _, name := range names {
		before[name] = stat(name)
	}
	t.Cleanup(func() { // what another version may have changed
		for name, st := range before {
			_ = os.Chmod("/dev/"+name, os.FileMode(st.Mode&0o777))
		}
	})
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		for label, box := range map[string]*protocol.Sandbox{
			"read-only": w.ro(), "workspace": w.ww(w.dir), "named": w.ww(w.dir, at("/dev/null", "write"), at("/dev/zero", "write"), at("/dev/urandom", "read")),
			"denied": w.policy(root("read"), at("/dev", "deny")), "minimal": w.policy(minimal(), at(w.dir, "read"), at(filepath.Dir(tool), "read")),
		} {
			list := []try{{"fchmod 0", "EROFS|EPERM"}, {"again 0", "EROFS|EPERM|EACCES|ENOENT"}}
			for _, name := range names {
				for _, do := range []string{"chmod", "chown", "touch"} {
					list = append(list, try{do + " /dev/" + name, "EROFS|EPERM|EACCES|ENOENT"})
				}
			}
			s.tries(c, box, list...)
			if label == "denied" {
				continue
			}
			s.tries(c, box, try{"write /dev/null", "ok"}, try{"write /dev/zero", "ok"}, try{"write /dev/full", "ENOSPC"},
				try{"read /dev/zero", "ok"}, try{"read /dev/urandom", "ok"}, try{"read /dev/stdin", "EOF"})
			if r := s.sh(c, box, "echo x >/dev/null && readlink /proc/self/fd/0 && exec 3<>/dev/null && echo x >&3 && echo fine"); r.stdout != "/dev/null\nfine\n" {
				t.Errorf("%s: %+v", label, r)
			}
		}
		for _, name := range names {
			if got, was := stat(name), before[name]; got.Mode != was.Mode || got.Uid != was.Uid || got.Mtim != was.Mtim && name != "null" && name != "tty" { // other programs write to these
				t.Errorf("/dev/%s was mode %o of user %d, is %o of %d", name, was.Mode, was.Uid, got.Mode, got.Uid)
			}
		}
	})
}

// Without the network a command is off the network, also where the file system is
// its own: no process of the user can be made to lend it one.
func TestSM3NoNetworkByOtherProcesses(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		for _, kind := range []string{"external", protocol.PermissionsManaged} {
			box := network(kind)
			for _, pid := range []int{s.PID, w.victim()} {
				p := fmt.Sprintf("/proc/%d/", pid)
				s.tries(c, box,
					try{"open " + p + "mem", "EACCES"}, try{"rdwr " + p + "mem", "EACCES"}, try{"read " + p + "mem", "EACCES"},
					try{"read " + p + "environ", "EACCES"}, try{"read " + p + "maps", "EACCES"}, try{"readlink " + p + "fd/0", "EACCES"},
					try{fmt.Sprintf("kill %d", pid), "EPERM"}, try{fmt.Sprintf("sigio %d", pid), "EPERM|ok"},
				)
			}
			// Files are as open as ever.
			w.write(filepath.Join(w.dir, "a", "f"), "f", 0o600)
			w.mkdir(filepath.Join(w.dir, "b"))
			s.tries(c, box, try{"socket", "EPERM"}, try{"rename a/f b/g", "ok"}, try{"link b/g a/" + kind, "ok"}, try{"open b/g", "ok"},
				try{"chmod b/g", "ok"}, try{"chown b/g", "ok"})
			r := s.sh(c, box, "mkfifo p; (echo x >p &); cat p; rm p; sleep 60 & kill $!; grep ^CapEff /proc/self/status; grep -c x /proc/self/environ >/dev/null; echo fine")
			if !strings.HasPrefix(r.stdout, "x\n") || !strings.HasSuffix(r.stdout, "fine\n") {
				t.Errorf("a usual script: %+v", r)
			}
			if want := map[bool]string{true: "000000000000001f", false: "0000000000000000"}[w.uid == 0]; !strings.Contains(r.stdout, want) {
				t.Errorf("capabilities: %s, want %s", r.stdout, want)
			}
		}
	})
}

// A command that may write nothing writes to no FIFO either.
func TestSL2FIFOs(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		outside, inside := filepath.Join(w.home, "fifo"), filepath.Join(w.dir, "fifo")
		for _, path := range []string{outside, inside} {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(path, w.uid, w.uid); err != nil {
				t.Fatal(err)
			}
			reader, err := os.OpenFile(path, os.O_RDWR, 0) // so that a writer does not wait
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
		}
		legacy := w.ro()
		legacy.UseLegacyLandlock = true
		open := w.ro()
		open.Permissions.Network = protocol.NetworkEnabled
		for _, box := range []*protocol.Sandbox{w.ro(), open, legacy, w.policy(minimal(), at(w.home, "read"), at(w.dir, "read"), at(filepath.Dir(tool), "read"))} {
			s.tries(c, box, try{"write " + outside, "EACCES"}, try{"rdwr " + outside, "EACCES"})
		}
		// What a policy lets be written stays so, and renames stay possible.
		w.write(filepath.Join(w.dir, "a", "f"), "f", 0o600)
		w.mkdir(filepath.Join(w.dir, "b"))
		s.tries(c, w.ww(w.dir), try{"write " + outside, "EACCES"}, try{"write " + inside, "ok"}, try{"rename a/f b/g", "ok"},
			try{"link b/g a/f", "ok"}, try{"rename a b/a", "ok"}, try{"rename b/a a", "ok"})
		s.tries(c, w.ww(w.dir, at(outside, "write")), try{"write " + outside, "ok"})
		r := s.sh(c, w.ww(w.dir), "mkfifo p; (echo x >p &); cat p; rm p; echo out >/dev/stdout; echo err >/dev/stderr; echo y >/dev/shm/y && cat /dev/shm/y; echo x | tee /dev/fd/1")
		if r.stdout != "x\nout\ny\nx\nx\n" || r.stderr != "err\n" {
			t.Errorf("a usual script: %+v", r)
		}
	})
}

// Landlock alone changes no flags of files either.
func TestSL9FlagsWithLandlock(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		legacy := w.ro()
		legacy.UseLegacyLandlock = true
		file := filepath.Join(w.dir, "f")
		w.write(file, "f", 0o600)
		before := fileFlags(t, file)
		for _, path := range []string{file, w.dir} {
			for _, request := range []uint32{unix.FS_IOC_SETFLAGS, 0x401c5820, 0x40087602, unix.FS_IOC_ENABLE_VERITY} {
				s.tries(c, legacy, try{fmt.Sprintf("request %s %#x", path, request), "EROFS"})
			}
			// Those of single file systems: EXT4_IOC_SETVERSION, EXT4_IOC_MIGRATE, BTRFS_IOC_SUBVOL_CREATE and XFS_IOC_FREEZE.
			for _, request := range []uint32{0x40086604, 0x6609, 0x5000940e, 0xc0045877, unix.FS_IOC_SET_ENCRYPTION_POLICY} {
				s.tries(c, legacy, try{fmt.Sprintf("request %s %#x", path, request), "ENOTTY|EPERM"})
			}
		}
		s.tries(c, legacy, try{"request " + file + " " + fmt.Sprintf("%#x", unix.FS_IOC_GETFLAGS), "ok"},
			try{"request " + file + " 0x541b", "ok"}, try{"request " + file + " 2", "ok"},
			try{"shmget 4711", "EPERM"}, try{"lease " + file, "EPERM"})
		if got := fileFlags(t, file); got != before {
			t.Errorf("flags were %#x, are %#x", before, got)
		}
		for _, request := range []uint32{unix.FS_IOC_SETFLAGS, 0x401c5820} {
			s.tries(c, w.ro(), try{fmt.Sprintf("request %s %#x", file, request), "EROFS"})
		}
		s.tries(c, w.ro(), try{"lease " + file, "EPERM"})
	})
}

func fileFlags(t *testing.T, path string) int {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return 0 // a file system without flags
	}
	return flags
}

// minimal is what running the system's programs takes.
func minimal() entry {
	return entry{Path: protocol.PermissionPath{Type: "special", Value: &protocol.SpecialPath{Kind: "minimal"}}, Access: protocol.AccessRead}
}

// A minimal policy has none of the machine's secrets, for root as for others.
func TestSL11SecretsOfTheSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root finds them readable
	}
	dir, w := scratchIn(t, "/etc"), newWorld(t, 0)
	kept, open := secret(), secret()
	w.write(filepath.Join(dir, "key"), kept, 0o600)
	w.write(filepath.Join(dir, "group"), kept, 0o640)
	w.write(filepath.Join(dir, "open"), open, 0o644)
	w.write(filepath.Join(dir, "private", "key"), kept, 0o644)
	if err := os.Symlink("key", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := w.serve(nil)
	c, rc := s.dial(nil), s.raw()
	box := w.policy(minimal(), at(w.dir, "read"))
	r := s.sh(c, box, "cd "+dir+"; cat key group private/key link; cat open")
	hidden(t, "cat", r.text(), kept)
	if !strings.Contains(r.stdout, open) {
		t.Errorf("a file for everybody is not there: %+v", r)
	}
	for _, name := range []string{"key", "group", "private/key", "link"} {
		if got, err := readFile(rc, filepath.Join(dir, name), box); err == nil {
			t.Errorf("fs/readFile of %s: %q", name, got)
		}
	}
	for _, name := range []string{
		"shadow", "shadow-", "gshadow", "gshadow-", "security/opasswd", "sudoers", "krb5.keytab", "ssh/ssh_host_rsa_key",
		"ssh/ssh_host_ed25519_key", "ssl/private", "NetworkManager/system-connections",
	} {
		if r := s.sh(c, box, "cat /etc/"+name+" /etc/"+name+"/*"); r.stdout != "" {
			t.Errorf("/etc/%s can be read", name)
		}
	}
	// A policy that names a file has it.
	if r := s.sh(c, w.policy(minimal(), at(w.dir, "read"), at(dir, "read")), "cat "+dir+"/key"); !strings.Contains(r.stdout, kept) {
		t.Errorf("a file that the policy names: %+v", r)
	}
}
