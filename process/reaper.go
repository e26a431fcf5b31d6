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

// Reap collects the processes that this program inherits when it is PID 1 or a
// subreaper, until ctx ends; otherwise it returns at once. It leaves alone the
// children of HostSpawners, and what is in this program's own session: children of
// package os/exec, which are waited for where they were started. One Reap runs at a
// time.
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
	for {
		n, err := reapOrphans()
		if err != nil {
			return fmt.Errorf("reap orphans: %w", err)
		}
		if n > 0 {
			logger.Debug("collected orphans", "count", n)
		}
		select {
		case <-ends:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(reapDelay):
		case <-ctx.Done():
			return nil
		}
	}
}

// reapOrphans collects all orphans that have ended, and counts them.
func reapOrphans() (int, error) {
	if !zombieExists() {
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
	n := 0
	for _, pid := range candidates {
		if children.has(pid) {
			continue
		}
		if session, err := unix.Getsid(pid); err != nil || session == own {
			continue
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
