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
	var counted []int // in the kernel's order of their memory
	for _, pid := range pids {
		at, shared := slices.BinarySearchFunc(counted, pid, compareMemory)
		if shared {
			continue
		}
		counted = slices.Insert(counted, at, pid)
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

// compareMemory compares the memory of two processes in an order of the kernel's own. It
// is 0 for those that have the very same, as a child has with its parent between vfork
// and exec, and not 0 where one of them is gone or out of reach.
func compareMemory(a, b int) int {
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	switch {
	case errno == 0 && r == 0:
		return 0
	case errno == 0 && r == 1:
		return -1
	}
	return 1
}

// kcmpVM has kcmp compare the memory of two processes: KCMP_VM of linux/kcmp.h.
const kcmpVM = 1
