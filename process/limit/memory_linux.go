package limit

import (
	"bytes"
	"os"
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
	alike := make(map[uint64][]int) // by a figure that is the same for the same memory
	for _, pid := range pids {
		peak := sumOf(pid, "status", "VmPeak")
		if sharesMemory(pid, alike[peak]) {
			continue
		}
		alike[peak] = append(alike[peak], pid)
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

// sharesMemory reports whether a process has the very memory of one of others, as a
// child has between vfork and exec.
func sharesMemory(pid int, others []int) bool {
	for _, other := range others {
		if r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(pid), uintptr(other), kcmpVM, 0, 0, 0); errno == 0 && r == 0 {
			return true
		}
	}
	return false
}

// kcmpVM has kcmp compare the memory of two processes: KCMP_VM of linux/kcmp.h.
const kcmpVM = 1
