package process

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reapDelay is the time from the end of some child to the look for orphans: most
// children are waited for by then, and many ends cost one look.
const reapDelay = 20 * time.Millisecond

// suspectTime is how long a session leader that has ended is left to somebody else to
// wait for: it may be an orphan, or a child of this program that package os/exec has
// put into a session of its own.
const suspectTime = time.Second

// Reap collects the processes that this program inherits when it is PID 1 or a
// subreaper, until ctx ends; otherwise it returns at once. It leaves alone the
// children of HostSpawners, and those of package os/exec: what is in this program's
// own session, and what is waited for at once. One Reap runs at a time.
func Reap(ctx context.Context, logger *slog.Logger) error {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if !inheritsOrphans() {
		return nil
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, unix.SIGCHLD)
	defer signal.Stop(ends)
	r := reaper{suspects: make(map[int]time.Time)}
	for {
		n, err := r.look(time.Now())
		if err != nil {
			return fmt.Errorf("reap orphans: %w", err)
		}
		if n > 0 {
			logger.Debug("collected orphans", "count", n)
		}
		var again <-chan time.Time
		if len(r.suspects) > 0 {
			again = time.After(suspectTime)
		}
		select {
		case <-again:
		case <-ends:
			select {
			case <-time.After(reapDelay):
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// reaper tells orphans that have ended from children that somebody waits for.
type reaper struct {
	suspects map[int]time.Time // session leaders, and when they were first seen dead
}

// look collects the orphans that have ended, and counts them.
func (r *reaper) look(now time.Time) (int, error) {
	if !zombieExists() {
		clear(r.suspects)
		return 0, nil
	}
	candidates, err := childPIDs()
	if err != nil {
		return 0, err
	}
	own, err := unix.Getsid(0)
	if err != nil {
		return 0, err
	}
	// A child that was being forked when the candidates were listed is in the table
	// once this is locked.
	children.forking.Lock()
	defer children.forking.Unlock()
	before := r.suspects
	r.suspects = make(map[int]time.Time)
	n := 0
	for _, pid := range candidates {
		session, err := unix.Getsid(pid)
		if err != nil || session == own || children.has(pid) || !isZombie(pid) {
			continue
		}
		if session == pid {
			since, seen := before[pid]
			if !seen {
				since = now
			}
			if now.Sub(since) < suspectTime {
				r.suspects[pid] = since
				continue
			}
		}
		if got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); err == nil && got == pid {
			n++
		}
	}
	return n, nil
}

// childPIDs lists the children of this program, orphans included.
func childPIDs() ([]int, error) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return nil, err
	}
	if len(lists) == 0 {
		return childPIDsByParent()
	}
	var pids []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range bytes.Fields(text) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// childPIDsByParent is childPIDs for kernels that do not list children.
func childPIDsByParent() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold anything; then come state and parent.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
