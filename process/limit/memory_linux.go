package limit

import (
	"bytes"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// memoryOf is the memory of processes that is no file's: their own and mapped shared
// memory, in RAM or swapped out. Memory that several have in common counts once. That
// is costly to find out, and not done where limit bytes are not exceeded, or by one
// process alone.
func memoryOf(pids []int, limit uint64) uint64 {
	var sum uint64
	for i, pid := range pids {
		n := sumOf(pid, "status", "RssAnon", "RssShmem", "VmSwap")
		if n == 0 {
			pids[i], n = otherThread(pid)
		}
		sum += n
	}
	if sum <= limit {
		return sum
	}
	for _, pid := range pids {
		if n := sumOf(pid, "status", "RssAnon", "VmSwap"); n > limit {
			return n
		}
	}
	sum = 0
	var counted byMemory
	for _, pid := range pids {
		if !counted.add(pid) {
			continue
		}
		n := sumOf(pid, "smaps_rollup", "Pss_Anon", "Pss_Shmem", "SwapPss")
		if n == 0 { // out of reach, as that of a set-user-ID program is
			n = sumOf(pid, "status", "RssAnon", "RssShmem", "VmSwap")
		}
		sum += n
	}
	return sum
}

// otherThread returns a thread that tells the memory of a process, for one whose first
// thread has ended, and that memory.
func otherThread(pid int) (int, uint64) {
	threads, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, entry := range threads {
		if tid, err := strconv.Atoi(entry.Name()); err == nil && tid != pid {
			if n := sumOf(tid, "status", "RssAnon", "RssShmem", "VmSwap"); n > 0 {
				return tid, n
			}
		}
	}
	return pid, 0
}

// sumOf adds up values in kB of a file in /proc/PID. It returns bytes.
func sumOf(pid int, name string, keys ...string) (sum uint64) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name) // one that is gone has none
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		for _, k := range keys {
			if string(key) == k {
				kib, _ := strconv.ParseUint(string(bytes.TrimSuffix(bytes.TrimSpace(value), []byte(" kB"))), 10, 64)
				sum += kib << 10
			}
		}
	}
	return sum
}

// byMemory has processes no two of which have the very same memory, as a child has with
// its parent between vfork and exec. They are in an order of the kernel's own.
type byMemory []int

// add puts a process into its place. It reports false for one that has the memory of
// another. A process that is gone or out of reach cannot be compared: it is not kept.
func (l *byMemory) add(pid int) bool {
	if _, ok := compareMemory(pid, pid); !ok {
		return true
	}
	low, high := 0, len(*l)
	for low < high {
		middle := (low + high) / 2
		order, ok := compareMemory(pid, (*l)[middle])
		switch {
		case !ok: // it has ended since
			*l = slices.Delete(*l, middle, middle+1)
			high--
		case order == 0:
			return false
		case order < 0:
			high = middle
		default:
			low = middle + 1
		}
	}
	*l = slices.Insert(*l, low, pid)
	return true
}

// compareMemory compares the memory of two processes: 0 says that it is the very same.
// false says that one of them is gone or out of reach.
func compareMemory(a, b int) (order int, ok bool) {
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	switch {
	case errno != 0 || r > 2:
		return 0, false
	case r == 1:
		return -1, true
	}
	return int(r), true // 0, or 2 for greater
}

// kcmpVM has kcmp compare the memory of two processes: KCMP_VM of linux/kcmp.h.
const kcmpVM = 1
