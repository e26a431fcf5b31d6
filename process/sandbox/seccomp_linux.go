package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data; both supported machines are little-endian.
const (
	offNumber   = 0
	offArch     = 4
	offArgLow   = 16 // of argument 0, the others 8 bytes apart
	offArgHigh  = 20
	argSize     = 8
	x32Bit      = 0x40000000
	sockTypeAll = 0xf // without SOCK_CLOEXEC and SOCK_NONBLOCK

	retAllow = 0x7fff0000
	retKill  = 0x80000000 // the whole process, with SIGSYS
	retErrno = 0x00050000
)

// filterOptions are the parts of a filter.
type filterOptions struct {
	// network refuses every socket but pairs of connected ones.
	network bool
	// confined refuses what makes namespaces and mounts and what else a program in a
	// sandbox has no business with.
	confined bool
	// metadata refuses changes of modes, owners, times, attributes and flags, which
	// Landlock does not know, and the queues of other programs.
	metadata bool
}

// filterProgram assembles a filter for this machine. System calls of another
// machine's numbers kill the process.
func filterProgram(o filterOptions) ([]bpf.RawInstruction, error) {
	var p []bpf.Instruction
	p = append(p,
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	)
	if hasX32 {
		p = append(p,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32Bit, SkipFalse: 1},
			bpf.RetConstant{Val: retErrno | uint32(unix.ENOSYS)},
		)
	}
	p = append(p, refuse(unix.EPERM, alwaysRefused)...)
	p = append(p, otherRules()...)
	if o.network {
		p = append(p, refuse(unix.EPERM, networkRefused)...)
		p = append(p, socketRules()...)
	}
	if o.confined {
		p = append(p, refuse(unix.EPERM, confinedRefused)...)
		// The flags of clone3 are out of a filter's sight; programs fall back to clone.
		p = append(p, refuse(unix.ENOSYS, []uint32{unix.SYS_CLONE3})...)
		p = append(p, cloneRule()...)
		p = append(p, controlRules()...)
	}
	if o.metadata {
		p = append(p, metadataRules()...)
	}
	p = append(p, bpf.RetConstant{Val: retAllow})
	raw, err := bpf.Assemble(p)
	if err != nil {
		return nil, fmt.Errorf("assemble seccomp filter: %w", err)
	}
	return raw, nil
}

// alwaysRefused are ways around the other rules: io_uring makes sockets and opens
// files without system calls, and a process can be reached through a pidfd. kcmp tells
// about the descriptors and the memory of other processes.
var alwaysRefused = []uint32{
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_PIDFD_GETFD,
	unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_KCMP,
}

// networkRefused leave a socket nothing to talk to. A debugger could lend a socket.
var networkRefused = []uint32{
	unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_SENDMMSG,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
}

var confinedRefused = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
}

var metadataRefused = []uint32{
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
	unix.SYS_FREMOVEXATTR, unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
}

func refuse(errno unix.Errno, numbers []uint32) []bpf.Instruction {
	var p []bpf.Instruction
	for _, n := range numbers {
		p = append(p,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: n, SkipTrue: 1},
			bpf.RetConstant{Val: retErrno | uint32(errno)},
		)
	}
	return p
}

// onCall runs body for one system call and loads the number again after it. The body
// leaves by returning or by falling through.
func onCall(number uint32, body ...bpf.Instruction) []bpf.Instruction {
	p := []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: uint8(len(body) + 1)}}
	p = append(p, body...)
	return append(p, bpf.LoadAbsolute{Off: offNumber, Size: 4})
}

// socketRules allow unix sockets that are connected from birth or of no use, and no
// datagram ones, which can be sent anywhere. Sending to an address is refused.
func socketRules() []bpf.Instruction {
	eperm := bpf.RetConstant{Val: retErrno | uint32(unix.EPERM)}
	body := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArgLow, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 1},
		eperm,
		bpf.LoadAbsolute{Off: offArgLow + argSize, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: sockTypeAll},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOCK_DGRAM, SkipTrue: 1},
		eperm,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOCK_RAW, SkipTrue: 1}, // the same for unix sockets
		eperm,
	}
	p := onCall(unix.SYS_SOCKET, body...)
	p = append(p, onCall(unix.SYS_SOCKETPAIR, body...)...)
	return append(p, onCall(unix.SYS_SENDTO,
		bpf.LoadAbsolute{Off: offArgLow + 4*argSize, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		eperm,
		bpf.LoadAbsolute{Off: offArgHigh + 4*argSize, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		eperm,
	)...)
}

// cloneRule refuses clone with a flag for a new namespace.
func cloneRule() []bpf.Instruction {
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	return onCall(unix.SYS_CLONE,
		bpf.LoadAbsolute{Off: offArgLow, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: namespaces, SkipTrue: 1},
		bpf.RetConstant{Val: retErrno | uint32(unix.EPERM)},
	)
}

// applyFilter puts the calling thread under a filter. It needs no_new_privs.
func applyFilter(o filterOptions) error {
	raw, err := filterProgram(o)
	if err != nil {
		return err
	}
	filters := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filters[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	program := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return step(errno, "install a seccomp filter")
	}
	return nil
}
