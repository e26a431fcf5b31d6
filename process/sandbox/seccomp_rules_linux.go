package sandbox

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ioprioWhoUser is IOPRIO_WHO_USER.
const ioprioWhoUser = 3

// otherRules refuse what changes another process by its number: its limits, its
// priority, its processors. The kernel asks for nothing but the same user, and
// Landlock keeps none of it inside. Number 0 is the caller itself and stays allowed;
// a filter cannot tell the caller's own number from another's.
func otherRules() []bpf.Instruction {
	eperm := bpf.RetConstant{Val: retErrno | uint32(unix.EPERM)}
	p := onCall(unix.SYS_PRLIMIT64,
		bpf.LoadAbsolute{Off: offArgLow, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 5},
		bpf.LoadAbsolute{Off: offArgLow + 2*argSize, Size: 4}, // without new limits it only reads
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 2},
		bpf.LoadAbsolute{Off: offArgHigh + 2*argSize, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		eperm,
	)
	for _, number := range []uint32{
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	} {
		p = append(p, onCall(number,
			bpf.LoadAbsolute{Off: offArgLow, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
			eperm,
		)...)
	}
	for _, call := range []struct{ number, user uint32 }{
		{unix.SYS_SETPRIORITY, unix.PRIO_USER}, {unix.SYS_IOPRIO_SET, ioprioWhoUser},
	} {
		p = append(p, onCall(call.number,
			bpf.LoadAbsolute{Off: offArgLow + argSize, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 2},
			bpf.LoadAbsolute{Off: offArgLow, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call.user, SkipTrue: 1},
			eperm,
		)...)
	}
	return p
}

// controlRules refuse requests that a read-only mount does not stop: typing into a
// terminal that others read, taking away keys of encrypted directories, and leases,
// which keep everybody else from opening a file.
func controlRules() []bpf.Instruction {
	eperm := bpf.RetConstant{Val: retErrno | uint32(unix.EPERM)}
	p := onCall(unix.SYS_IOCTL, append([]bpf.Instruction{bpf.LoadAbsolute{Off: offArgLow + argSize, Size: 4}},
		refuse(unix.EPERM, []uint32{
			unix.TIOCSTI, unix.TIOCLINUX,
			unix.FS_IOC_ADD_ENCRYPTION_KEY, unix.FS_IOC_REMOVE_ENCRYPTION_KEY, unix.FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS,
		})...)...)
	return append(p, onCall(unix.SYS_FCNTL,
		bpf.LoadAbsolute{Off: offArgLow + argSize, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.F_SETLEASE, SkipTrue: 1},
		eperm,
	)...)
}

// These ioctl requests change a file that the caller owns, without a descriptor for
// writing.
const (
	fsIocSetVersion   = 0x40087602 // _IOW('v', 2, long)
	fsIocSetVersion32 = 0x40047602
	fsIocSetFlags32   = 0x40046602
	fsIocFsSetXattr   = 0x401c5820 // _IOW('X', 32, struct fsxattr)
	fsIocFsGetXattr   = 0x801c581f
	fsIocFiemap       = 0xc020660b
	fsIocGetVersion   = 0x80087601
	rndGetEntropy     = 0x80045200
	figetbsz          = 2
	fibmap            = 1
	ioctlType         = 0xff00
	ioctlTerminals    = 'T' << 8 // also FIONREAD, FIONBIO, FIOCLEX
	ioctlSockets      = 0x89 << 8
)

// metadataRules are for Landlock, which knows ioctl of devices only: flags and other
// attributes are not changed, and of all other requests only those pass that read or
// that concern terminals and sockets. Every file system has requests of its own, and
// some make snapshots or move blocks through a descriptor that was opened to read.
func metadataRules() []bpf.Instruction {
	body := []bpf.Instruction{bpf.LoadAbsolute{Off: offArgLow + argSize, Size: 4}}
	body = append(body, refuse(unix.EROFS, []uint32{
		unix.FS_IOC_SETFLAGS, fsIocSetFlags32, fsIocFsSetXattr, fsIocSetVersion, fsIocSetVersion32, unix.FS_IOC_ENABLE_VERITY,
	})...)
	harmless := []uint32{
		unix.FS_IOC_GETFLAGS, fsIocFsGetXattr, fsIocGetVersion, fsIocFiemap, figetbsz, fibmap, rndGetEntropy,
		unix.FS_IOC_GET_ENCRYPTION_POLICY, unix.FS_IOC_GET_ENCRYPTION_POLICY_EX, unix.FS_IOC_GET_ENCRYPTION_KEY_STATUS,
		unix.FS_IOC_GET_ENCRYPTION_NONCE, unix.FS_IOC_MEASURE_VERITY,
	}
	for i, request := range harmless {
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: request, SkipTrue: uint8(len(harmless) - i - 1 + 4)})
	}
	body = append(body,
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: ioctlType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: ioctlTerminals, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: ioctlSockets, SkipTrue: 1},
		bpf.RetConstant{Val: retErrno | uint32(unix.ENOTTY)},
	)
	p := refuse(unix.EROFS, metadataRefused)
	p = append(p, refuse(unix.EROFS, metadataRefusedArch)...)
	p = append(p, refuse(unix.EPERM, queuesRefused)...)
	return append(p, onCall(unix.SYS_IOCTL, body...)...)
}

// queuesRefused are System V's and POSIX's queues, semaphores and shared memory of the
// user's other programs. The other mechanism has an IPC namespace instead.
var queuesRefused = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}
