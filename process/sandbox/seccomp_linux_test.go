package sandbox

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// verdict runs a filter on a system call as the kernel would.
func verdict(t *testing.T, o filterOptions, arch, number uint32, args ...uint64) uint32 {
	t.Helper()
	raw, err := filterProgram(o)
	if err != nil {
		t.Fatal(err)
	}
	program := make([]bpf.Instruction, len(raw))
	for i, r := range raw {
		program[i] = r.Disassemble()
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	// The VM reads packets, whose byte order is big-endian; the kernel reads words of
	// its own order. So each 32-bit word is written big-endian.
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offNumber:], number)
	binary.BigEndian.PutUint32(data[offArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[offArgLow+i*argSize:], uint32(a))
		binary.BigEndian.PutUint32(data[offArgHigh+i*argSize:], uint32(a>>32))
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func TestFilter(t *testing.T) {
	const (
		eperm  = retErrno | uint32(unix.EPERM)
		enosys = retErrno | uint32(unix.ENOSYS)
		erofs  = retErrno | uint32(unix.EROFS)
	)
	all := filterOptions{network: true, confined: true, metadata: true}
	network, confined := filterOptions{network: true}, filterOptions{confined: true}
	for _, tt := range []struct {
		name   string
		o      filterOptions
		number uint32
		args   []uint64
		want   uint32
	}{
		{"read", all, unix.SYS_READ, nil, retAllow},
		{"exec", all, unix.SYS_EXECVE, nil, retAllow},
		{"openat", all, unix.SYS_OPENAT, nil, retAllow},
		{"io_uring", filterOptions{}, unix.SYS_IO_URING_SETUP, nil, eperm},
		{"pidfd_getfd", filterOptions{}, unix.SYS_PIDFD_GETFD, nil, eperm},
		{"inet", network, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM}, eperm},
		{"inet6", network, unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM}, eperm},
		{"netlink", network, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW}, eperm},
		{"vsock", network, unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, eperm},
		{"high bits of the family", network, unix.SYS_SOCKET, []uint64{unix.AF_INET | 1<<32, unix.SOCK_STREAM}, eperm},
		{"unix stream", network, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, retAllow},
		{"unix packets", network, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, retAllow},
		{"unix datagrams", network, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK}, eperm},
		{"unix raw", network, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_RAW}, eperm},
		{"pair", network, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, retAllow},
		{"pair of datagrams", network, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, eperm},
		{"connect", network, unix.SYS_CONNECT, nil, eperm},
		{"bind", network, unix.SYS_BIND, nil, eperm},
		{"send", network, unix.SYS_SENDTO, []uint64{3, 1, 1, 0, 0, 0}, retAllow},
		{"send to an address", network, unix.SYS_SENDTO, []uint64{3, 1, 1, 0, 0x1000, 16}, eperm},
		{"send to a high address", network, unix.SYS_SENDTO, []uint64{3, 1, 1, 0, 1 << 32, 16}, eperm},
		{"ptrace without network", network, unix.SYS_PTRACE, nil, eperm},
		{"inet with network", confined, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM}, retAllow},
		{"ptrace with network", confined, unix.SYS_PTRACE, nil, retAllow},
		{"mount", confined, unix.SYS_MOUNT, nil, eperm},
		{"mount, file system open", network, unix.SYS_MOUNT, nil, retAllow},
		{"unshare", confined, unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWUSER}, eperm},
		{"clone3", confined, unix.SYS_CLONE3, nil, enosys},
		{"fork", confined, unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, retAllow},
		{"thread", confined, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS}, retAllow},
		{"clone with a user namespace", confined, unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, eperm},
		{"clone with a mount namespace", confined, unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS}, eperm},
		{"typing into a terminal", confined, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, eperm},
		{"typing, with high bits", confined, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI | 1<<32}, eperm},
		{"pasting into a console", confined, unix.SYS_IOCTL, []uint64{0, unix.TIOCLINUX}, eperm},
		{"size of a terminal", confined, unix.SYS_IOCTL, []uint64{0, unix.TIOCGWINSZ}, retAllow},
		{"mode", all, unix.SYS_FCHMODAT, nil, erofs},
		{"times", all, unix.SYS_UTIMENSAT, nil, erofs},
		{"mode on mounts", confined, unix.SYS_FCHMODAT, nil, retAllow},
	} {
		if got := verdict(t, tt.o, auditArch, tt.number, tt.args...); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
	if got := verdict(t, confined, unix.AUDIT_ARCH_I386, 21); got != retKill {
		t.Errorf("numbers of another machine: %#x", got)
	}
	if got := verdict(t, confined, auditArch, x32Bit|unix.SYS_READ); hasX32 && got != enosys {
		t.Errorf("x32: %#x", got)
	}
}

// Every refused call is refused with every option that names it, and no option takes
// another's refusals away.
func TestFilterIsMonotonic(t *testing.T) {
	flags := []bool{false, true}
	for number := range uint32(480) {
		for _, n := range flags {
			for _, c := range flags {
				less := verdict(t, filterOptions{network: n, confined: c}, auditArch, number)
				more := verdict(t, filterOptions{network: true, confined: true, metadata: true}, auditArch, number)
				if less != retAllow && more == retAllow {
					t.Errorf("call %d is refused with less and allowed with more", number)
				}
			}
		}
	}
}

// Requests that change other processes or attributes of files are refused, and those
// that programs make of themselves are not.
func TestSM1SL9FilterLooksAtArguments(t *testing.T) {
	const (
		eperm  = retErrno | uint32(unix.EPERM)
		erofs  = retErrno | uint32(unix.EROFS)
		enotty = retErrno | uint32(unix.ENOTTY)
	)
	network, confined, all := filterOptions{network: true}, filterOptions{confined: true}, filterOptions{network: true, confined: true, metadata: true}
	for _, tt := range []struct {
		name   string
		o      filterOptions
		number uint32
		args   []uint64
		want   uint32
	}{
		{"own limits", network, unix.SYS_PRLIMIT64, []uint64{0, 0, 1}, retAllow},
		{"another's limits", network, unix.SYS_PRLIMIT64, []uint64{7, 0, 1}, eperm},
		{"another's limits, high pointer", confined, unix.SYS_PRLIMIT64, []uint64{7, 0, 1 << 32}, eperm},
		{"reading another's limits", confined, unix.SYS_PRLIMIT64, []uint64{7, 0, 0, 1}, retAllow},
		{"own limits, high bits", confined, unix.SYS_PRLIMIT64, []uint64{1 << 32, 0, 1}, retAllow},
		{"own processors", confined, unix.SYS_SCHED_SETAFFINITY, []uint64{0, 8, 1}, retAllow},
		{"another's processors", confined, unix.SYS_SCHED_SETAFFINITY, []uint64{7, 8, 1}, eperm},
		{"nice", confined, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0, 5}, retAllow},
		{"nice of the group", confined, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PGRP, 0, 5}, retAllow},
		{"nice of the user", confined, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_USER, 0, 5}, eperm},
		{"nice of another", confined, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 7, 5}, eperm},
		{"ionice of the user", confined, unix.SYS_IOPRIO_SET, []uint64{ioprioWhoUser, 0, 5}, eperm},
		{"ionice", confined, unix.SYS_IOPRIO_SET, []uint64{1, 0, 5}, retAllow},
		{"kcmp", network, unix.SYS_KCMP, nil, eperm},
		{"lease", confined, unix.SYS_FCNTL, []uint64{3, unix.F_SETLEASE, unix.F_WRLCK}, eperm},
		{"lock", confined, unix.SYS_FCNTL, []uint64{3, unix.F_SETLK, 1}, retAllow},
		{"taking keys away", confined, unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_REMOVE_ENCRYPTION_KEY}, eperm},
		{"flags on mounts", confined, unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_SETFLAGS}, retAllow},
		{"flags", all, unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_SETFLAGS}, erofs},
		{"flags, high bits", all, unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_SETFLAGS | 1<<32}, erofs},
		{"attributes", all, unix.SYS_IOCTL, []uint64{3, fsIocFsSetXattr}, erofs},
		{"a request of some file system", all, unix.SYS_IOCTL, []uint64{3, 0x5000940e}, enotty},
		{"reading flags", all, unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_GETFLAGS}, retAllow},
		{"the last harmless one", all, unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_MEASURE_VERITY}, retAllow},
		{"a terminal", all, unix.SYS_IOCTL, []uint64{3, unix.TCGETS}, retAllow},
		{"a new terminal", all, unix.SYS_IOCTL, []uint64{3, unix.TIOCGPTN}, retAllow},
		{"typing into a terminal", all, unix.SYS_IOCTL, []uint64{3, unix.TIOCSTI}, eperm},
		{"a socket", all, unix.SYS_IOCTL, []uint64{3, unix.SIOCGIFCONF}, retAllow},
		{"shared memory", all, unix.SYS_SHMGET, nil, eperm},
		{"shared memory of one's own", confined, unix.SYS_SHMGET, nil, retAllow},
	} {
		if got := verdict(t, tt.o, auditArch, tt.number, tt.args...); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}
