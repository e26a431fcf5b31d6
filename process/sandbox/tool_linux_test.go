package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runTool carries out tries, each a verb and its arguments, and prints a line for each.
func runTool(tries []string, out io.Writer) int {
	switch {
	case len(tries) == 1 && tries[0] == "serve hang":
		return serveHang(out)
	case len(tries) == 1 && tries[0] == "pdeathsig":
		var signal int32
		if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0); err != nil {
			return 1
		}
		fmt.Fprintln(out, unix.SignalName(syscall.Signal(signal)))
		return 0
	}
	for _, try := range tries {
		verb, rest, _ := strings.Cut(try, " ")
		answer := "ok"
		if err := tool(verb, strings.Fields(rest)); err != nil {
			answer = describe(err)
		}
		fmt.Fprintln(out, answer)
	}
	return 0
}

// serveHang is a server with a helper that would not end by itself. It prints the
// helper's pid and waits to be killed.
func serveHang(out io.Writer) int {
	e := New(Config{Role: "hang"})
	root := at("root", "read")
	c, err := e.Start(context.Background(), policy(root))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	pid, err := c.Read(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(out, string(pid))
	_ = forever()
	return 0
}

// forever does not return. An empty select is a deadlock to a program without cgo, and ends
// it.
func forever() error {
	for {
		_ = unix.Pause()
	}
}

// describe names an errno, such as EROFS.
func describe(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func tool(verb string, args []string) error {
	if do, ok := fileVerbs[verb]; ok {
		return do(args)
	}
	if do, ok := escapeVerbs[verb]; ok {
		return do(args)
	}
	return fmt.Errorf("unknown verb %q", verb)
}

var fileVerbs = map[string]func(args []string) error{
	"read":  func(a []string) error { _, err := os.ReadFile(a[0]); return err },
	"list":  func(a []string) error { _, err := os.ReadDir(a[0]); return err },
	"stat":  func(a []string) error { _, err := os.Stat(a[0]); return err },
	"mkdir": func(a []string) error { return unix.Mkdir(a[0], 0o755) },
	"rm":    func(a []string) error { return unix.Unlink(a[0]) },
	"rmdir": func(a []string) error { return unix.Rmdir(a[0]) },
	"mv":    func(a []string) error { return unix.Rename(a[0], a[1]) },
	"exchange": func(a []string) error {
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	},
	"link":    func(a []string) error { return unix.Link(a[0], a[1]) },
	"symlink": func(a []string) error { return unix.Symlink(a[0], a[1]) },
	"chmod":   func(a []string) error { return unix.Chmod(a[0], 0o777) },
	"touch":   func(a []string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, a[0], nil, 0) },
	"xattr":   func(a []string) error { return unix.Setxattr(a[0], "user.wsd", []byte("x"), 0) },
	"trunc":   func(a []string) error { return unix.Truncate(a[0], 0) },
	"append": func(a []string) error {
		f, err := os.OpenFile(a[0], os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		return f.Close()
	},
	"write":  func(a []string) error { return os.WriteFile(a[0], []byte("new"), 0o644) },
	"mkfifo": func(a []string) error { return unix.Mkfifo(a[0], 0o600) },
	"dangling": func(a []string) error {
		_, err := os.Lstat(a[0])
		return err
	},
}

var escapeVerbs = map[string]func(args []string) error{
	"remount":   func([]string) error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"remountat": func(a []string) error { return unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"bind":      func(a []string) error { return unix.Mount(a[0], a[1], "", unix.MS_BIND, "") },
	"tmpfs":     func(a []string) error { return unix.Mount("t", a[0], "tmpfs", 0, "") },
	"umount":    func(a []string) error { return unix.Unmount(a[0], unix.MNT_DETACH) },
	"opentree": func([]string) error {
		_, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
		return err
	},
	"setattr": func([]string) error {
		return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	},
	"fsopen": func([]string) error { _, err := unix.Fsopen("tmpfs", 0); return err },
	"chroot": func(a []string) error { return unix.Chroot(a[0]) },
	"pivot":  func([]string) error { return unix.PivotRoot(".", ".") },
	"unshare": func(a []string) error {
		flags, err := strconv.ParseInt(a[0], 0, 64)
		if err != nil {
			return err
		}
		return unix.Unshare(int(flags))
	},
	"setns": func(a []string) error {
		f, err := os.Open(a[0])
		if err != nil {
			return err
		}
		return unix.Setns(int(f.Fd()), 0)
	},
	"clone": func(a []string) error { // with a flag for a namespace
		flags, err := strconv.ParseUint(a[0], 0, 64)
		if err != nil {
			return err
		}
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(flags)|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		if pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, err = unix.Wait4(int(pid), nil, 0, nil)
		return err
	},
	"clone3": func([]string) error { return raw(unix.SYS_CLONE3, 0, 0) },
	"keyctl": func([]string) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
		return err
	},
	"bpf":    func([]string) error { return raw(unix.SYS_BPF, 0, 0, 0) },
	"uring":  func([]string) error { return raw(unix.SYS_IO_URING_SETUP, 1, 0) },
	"uffd":   func([]string) error { return raw(unix.SYS_USERFAULTFD, 1) },
	"perf":   func([]string) error { return raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0) },
	"handle": func([]string) error { return raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0) },
	"getfd":  func([]string) error { return raw(unix.SYS_PIDFD_GETFD, 0, 0, 0) },
	"tiocsti": func([]string) error {
		c := byte('x')
		return raw(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	},
	"tiocsti64": func([]string) error { // the kernel looks at the low half only
		c := byte('x')
		return raw(unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, uintptr(unsafe.Pointer(&c)))
	},
	"attach": func(a []string) error {
		pid, err := strconv.Atoi(a[0])
		if err != nil {
			return err
		}
		return unix.PtraceSeize(pid)
	},
	"kill": func(a []string) error {
		pid, err := strconv.Atoi(a[0])
		if err != nil {
			return err
		}
		return unix.Kill(pid, 0)
	},
	"setuid": func(a []string) error {
		uid, err := strconv.Atoi(a[0])
		if err != nil {
			return err
		}
		return unix.Setuid(uid)
	},
	"mknod":  func(a []string) error { return unix.Mknod(a[0], unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0))) },
	"socket": func(a []string) error { return socket(a[0], unix.SOCK_STREAM) },
	"dgram":  func(a []string) error { return socket(a[0], unix.SOCK_DGRAM) },
	"pair": func(a []string) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		if err := unix.Send(fds[0], []byte("x"), 0); err != nil {
			return err
		}
		_, _, err = unix.Recvfrom(fds[1], make([]byte, 1), 0)
		return err
	},
	"connect": func(a []string) error {
		c, err := net.Dial("unix", a[0])
		if err != nil {
			return err
		}
		return c.Close()
	},
	"listen": func(a []string) error {
		l, err := net.Listen(a[0], a[1])
		if err != nil {
			return err
		}
		return l.Close()
	},
	"dial": func(a []string) error {
		c, err := net.Dial("tcp", a[0])
		if err != nil {
			return err
		}
		return c.Close()
	},
	"openpty": func([]string) error {
		f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPTN)
		if err != nil {
			return err
		}
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		s, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		return errors.Join(s.Close(), f.Close())
	},
}

func raw(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

func socket(family string, kind int) error {
	n, err := strconv.Atoi(family)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(n, kind, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
