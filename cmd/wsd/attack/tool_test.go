//go:build attack && linux

package attack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// toolWord has the test binary make single system calls, as a confined program.
const toolWord = "attack-tool"

// tool is the test binary where every user can execute it.
var tool string

// The verb leaderless ends the first thread, which must be its own for that.
func init() {
	if len(os.Args) > 1 && os.Args[1] == toolWord {
		runtime.LockOSThread()
	}
}

// runTool carries out tries, each a verb and its arguments, and prints for each how it
// ended: "ok" or the name of the error.
func runTool(tries []string) int {
	for _, try := range tries {
		verb, rest, _ := strings.Cut(try, " ")
		do, known := toolVerbs[verb]
		if !known {
			fmt.Println("unknown verb", verb)
			continue
		}
		answer := "ok"
		if err := do(strings.Fields(rest)); err != nil {
			answer = err.Error()
			if errno, is := errors.AsType[syscall.Errno](err); is {
				answer = unix.ErrnoName(errno)
			}
		}
		fmt.Println(answer)
	}
	return 0
}

// number reads a verb's argument; self is the number of the process itself.
func number(s string) uintptr {
	if s == "self" {
		return uintptr(os.Getpid())
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		panic(err)
	}
	return uintptr(n)
}

// toolHog takes so many MiB, and stays.
func toolHog(n uintptr) error {
	mem, err := unix.Mmap(-1, 0, int(n)<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 1
	}
	for {
		_ = unix.Pause()
	}
}

func call(trap uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return errno
	}
	return nil
}

// limits are large enough to harm nobody.
var limits = unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}

var toolVerbs = map[string]func(a []string) error{
	"prlimit": func(a []string) error {
		return call(unix.SYS_PRLIMIT64, number(a[0]), unix.RLIMIT_CPU, uintptr(unsafe.Pointer(&limits)), 0)
	},
	"getlimit": func(a []string) error {
		var old unix.Rlimit
		return call(unix.SYS_PRLIMIT64, number(a[0]), unix.RLIMIT_CPU, 0, uintptr(unsafe.Pointer(&old)))
	},
	"setpriority": func(a []string) error {
		return call(unix.SYS_SETPRIORITY, number(a[0]), number(a[1]), 19)
	},
	"ioprio": func(a []string) error { return call(unix.SYS_IOPRIO_SET, number(a[0]), number(a[1]), 3<<13) },
	"setaffinity": func(a []string) error {
		var all [16]uintptr
		for i := range all {
			all[i] = ^uintptr(0)
		}
		return call(unix.SYS_SCHED_SETAFFINITY, number(a[0]), unsafe.Sizeof(all), uintptr(unsafe.Pointer(&all)))
	},
	"setscheduler": func(a []string) error {
		var priority int32
		return call(unix.SYS_SCHED_SETSCHEDULER, number(a[0]), 0, uintptr(unsafe.Pointer(&priority)))
	},
	"setparam": func(a []string) error {
		var priority int32
		return call(unix.SYS_SCHED_SETPARAM, number(a[0]), uintptr(unsafe.Pointer(&priority)))
	},
	"setattr": func(a []string) error {
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Nice: 19}
		return call(unix.SYS_SCHED_SETATTR, number(a[0]), uintptr(unsafe.Pointer(&attr)), 0)
	},
	"migrate": func(a []string) error {
		var nodes uintptr = 1
		return call(unix.SYS_MIGRATE_PAGES, number(a[0]), 2, uintptr(unsafe.Pointer(&nodes)), uintptr(unsafe.Pointer(&nodes)))
	},
	"movepages": func(a []string) error { return call(unix.SYS_MOVE_PAGES, number(a[0])) },
	"kcmp":      func(a []string) error { return call(unix.SYS_KCMP, number("self"), number(a[0]), 1) },
	"mrelease": func(a []string) error {
		fd, err := unix.PidfdOpen(int(number(a[0])), 0)
		if err != nil {
			return err
		}
		return call(unix.SYS_PROCESS_MRELEASE, uintptr(fd), 0)
	},
	"madvise": func(a []string) error {
		fd, err := unix.PidfdOpen(int(number(a[0])), 0)
		if err != nil {
			return err
		}
		return call(unix.SYS_PROCESS_MADVISE, uintptr(fd), 0, 0, unix.MADV_COLD, 0)
	},
	"kill": func(a []string) error { return unix.Kill(int(number(a[0])), 0) },
	"lock": func(a []string) error { // as SQLite does, until the end of the input
		f, err := os.Open(a[0])
		if err != nil {
			return err
		}
		defer f.Close()
		lock := unix.Flock_t{Type: unix.F_RDLCK, Start: 120, Len: 8}
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
			return err
		}
		fmt.Println("locked")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	},
	"sigio": func(a []string) error { // a signal by way of a descriptor
		fds := make([]int, 2)
		if err := unix.Pipe(fds); err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETOWN, int(number(a[0]))); err != nil {
			return err
		}
		return nil
	},
	"chmod":  func(a []string) error { return unix.Chmod(a[0], 0o666) },
	"touch":  func(a []string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, a[0], nil, 0) },
	"chown":  func(a []string) error { return unix.Chown(a[0], os.Getuid(), -1) },
	"fchmod": func(a []string) error { return unix.Fchmod(int(number(a[0])), 0o666) },
	"again":  func(a []string) error { return unix.Chmod("/proc/self/fd/"+a[0], 0o666) },
	"read": func(a []string) error {
		f, err := os.Open(a[0])
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Read(make([]byte, 1))
		return err
	},
	"write": func(a []string) error {
		f, err := os.OpenFile(a[0], os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString("x")
		return err
	},
	"rdwr": func(a []string) error {
		f, err := os.OpenFile(a[0], os.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return f.Close()
	},
	"open": func(a []string) error { // for writing, and nothing else
		f, err := os.OpenFile(a[0], os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	},
	"readlink": func(a []string) error {
		_, err := os.Readlink(a[0])
		return err
	},
	"rename": func(a []string) error { return os.Rename(a[0], a[1]) },
	"link":   func(a []string) error { return os.Link(a[0], a[1]) },
	"request": func(a []string) error { // an ioctl with a number to set or to be set
		f, err := os.Open(a[0])
		if err != nil {
			return err
		}
		defer f.Close()
		var room [16]uint64
		return call(unix.SYS_IOCTL, f.Fd(), number(a[1]), uintptr(unsafe.Pointer(&room)))
	},
	"lease": func(a []string) error {
		f, err := os.Open(a[0])
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
		return err
	},
	"hog": func(a []string) error { return toolHog(number(a[0])) },
	"leaderless": func(a []string) error { // ends its first thread and goes on: spins, hogs or stays
		go func() {
			switch a[0] {
			case "hog":
				_ = toolHog(number(a[1]))
			case "spin":
				for {
					_ = unix.Getppid()
				}
			}
			_ = unix.Pause()
		}()
		return call(unix.SYS_EXIT, 0)
	},
	"manythreads": func(a []string) error { // has so many threads, and stays
		for range number(a[0]) {
			go func() {
				runtime.LockOSThread()
				_ = unix.Pause()
			}()
		}
		for {
			_ = unix.Pause()
		}
	},
	"fork": func(a []string) error { // takes MiB and has so many children that share them
		mem, err := unix.Mmap(-1, 0, int(number(a[0]))<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < len(mem); i += 4096 {
			mem[i] = 1
		}
		var children []int
		for range number(a[1]) {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno != 0 {
				return errno
			}
			for pid == 0 { // no Go here: only the thread that forked is left
				_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
			children = append(children, int(pid))
		}
		_, _ = unix.Poll(nil, 1000) // the watchdog looks meanwhile
		fmt.Printf("%d processes\n", len(children)+1)
		for _, pid := range children {
			err = errors.Join(err, unix.Kill(pid, unix.SIGKILL))
		}
		return err
	},
	"shmget": func(a []string) error { return call(unix.SYS_SHMGET, number(a[0]), 4096, 0) },
	"socket": func([]string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	},
	"threads": func([]string) error { // a program of many threads goes on working
		done := make(chan struct{})
		go close(done)
		select {
		case <-done:
			return nil
		case <-time.After(time.Minute):
			return unix.ETIMEDOUT
		}
	},
}
