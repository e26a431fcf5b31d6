package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// systemMemory is the memory of the machine or, if that is less, the limit of the cgroup
// that wsd is in, or of one above it. It is 0 when nothing is known.
func systemMemory() int64 {
	var total int64
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		total = int64(uint64(info.Totalram) * uint64(info.Unit)) //nolint:unconvert // Totalram is a uint32 on some
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return total
	}
	return leastLimit(total, "/sys/fs/cgroup", string(groups))
}

// leastLimit is the least of total and the memory limits of the groups that a
// /proc/self/cgroup lists, whose hierarchies are mounted at root.
func leastLimit(total int64, root, groups string) int64 {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		top, file := root, "memory.max"
		if parts[1] == "memory" {
			top, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		} else if parts[1] != "" {
			continue
		}
		for dir := filepath.Join("/", parts[2]); ; dir = filepath.Dir(dir) {
			text, err := os.ReadFile(filepath.Join(top, dir, file))
			if n, numErr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && numErr == nil && n > 0 && (total == 0 || n < total) {
				total = n
			}
			if dir == "/" {
				break
			}
		}
	}
	return total
}
