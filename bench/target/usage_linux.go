package target

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const terminate = syscall.SIGTERM

// CPU is how much processor time the server itself has used, and how much its
// children have that it has waited for. The unit of both is 10 ms.
func (s *Server) CPU() (self, children time.Duration, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID))
	if err != nil {
		return 0, 0, err
	}
	return parseCPU(data)
}

// RSS is the server's resident memory in bytes.
func (s *Server) RSS() (int64, error) { return memory(s.PID, "VmRSS:") }

// Usage is what the server has cost since it started, its memory since ResetPeak.
func (s *Server) Usage() (u Usage, err error) {
	self, children, err := s.CPU()
	if err != nil {
		return u, err
	}
	u.CPU = self + children
	if u.Disk, u.Calls, err = written(s.PID); err != nil {
		return u, err
	}
	u.Peak, err = memory(s.PID, "VmHWM:")
	return u, err
}

// ResetPeak makes the server's present memory its peak.
func (s *Server) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.PID), []byte("5"), 0)
}

// lookPause is between two looks at the memory of a command that is measured.
const lookPause = 4 * time.Millisecond

// Measure runs a command to its end and returns what it has cost. Its peak is the sum of
// its own and its children's. When the command's context ends, its process group is killed.
func Measure(cmd *exec.Cmd) (u Usage, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return u, err
	}
	stop, peak := make(chan struct{}), make(chan int64)
	go func() { // ends with the command
		tick := time.NewTicker(lookPause)
		defer tick.Stop()
		peaks := map[int]int64{}
		for {
			lookAt(cmd.Process.Pid, peaks)
			select {
			case <-tick.C:
			case <-stop:
				sum := int64(0)
				for _, n := range peaks {
					sum += n
				}
				peak <- sum
				return
			}
		}
	}()
	// A process that has ended and has not been waited for still has its counters, which
	// hold those of its children.
	for {
		err = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		u.Disk, u.Calls, err = written(cmd.Process.Pid)
	}
	close(stop)
	u.Peak = <-peak
	err = errors.Join(cmd.Wait(), err)
	u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return u, err
}

// lookAt notes the peak memory of a process and of those below it. The kernel's own figure
// for a process that has ended is of no use: it holds the memory of who started it.
func lookAt(pid int, peaks map[int]int64) {
	if n, err := memory(pid, "VmHWM:"); err == nil {
		peaks[pid] = max(peaks[pid], n)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return // it has ended
	}
	for _, f := range bytes.Fields(data) {
		if child, err := strconv.Atoi(string(f)); err == nil {
			lookAt(child, peaks)
		}
	}
}

func written(pid int) (disk, calls int64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, 0, err
	}
	return parseIO(data)
}

func memory(pid int, name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parseKiB(data, name)
}

// Flush has the system write to the disk what programs have written to dir's file system.
func Flush(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// Room is how many bytes there are for files below dir. A file system in memory is an
// error: what is measured there says nothing of a disk.
func Room(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	if s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC {
		return 0, fmt.Errorf("%s is in memory; name a directory on a disk", dir)
	}
	return int64(s.Bavail) * s.Bsize, nil
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
