package target

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const terminate = syscall.SIGTERM

// tick is the unit of /proc/PID/stat. The kernel tells user programs of hundredths
// whatever its own clock does.
const tick = 10 * time.Millisecond

// CPU is how much processor time the server itself has used, and how much its
// children have that it has waited for. The unit of both is 10 ms.
func (s *Server) CPU() (self, children time.Duration, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID))
	if err != nil {
		return 0, 0, err
	}
	// The name of the program may hold anything, a parenthesis too.
	f := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(f) < 15 {
		return 0, 0, fmt.Errorf("stat of %d has %d fields", s.PID, len(f))
	}
	var v [4]int64 // utime, stime, cutime, cstime: fields 14 to 17, 12 to 15 after the name
	for i := range v {
		if v[i], err = strconv.ParseInt(string(f[11+i]), 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return time.Duration(v[0]+v[1]) * tick, time.Duration(v[2]+v[3]) * tick, nil
}

// RSS is the server's resident memory in bytes.
func (s *Server) RSS() (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("status of %d has no VmRSS", s.PID)
}

// Descriptors counts the server's open descriptors.
func (s *Server) Descriptors() (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID))
	return len(entries), err
}

// Threads counts the server's threads.
func (s *Server) Threads() (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.PID))
	return len(entries), err
}

// Children lists the processes whose parent is the server, dead ones that it has
// not waited for included.
func (s *Server) Children() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		f := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		if len(f) > 1 && string(f[1]) == strconv.Itoa(s.PID) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
