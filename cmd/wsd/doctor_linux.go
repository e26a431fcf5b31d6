package main

import (
	"os"
	"strconv"
	"strings"
)

// systemLimits looks at the limits of inotify.
func systemLimits() []check {
	var checks []check
	for _, l := range []struct {
		file string
		want uint64
	}{
		{"max_user_watches", 8192},
		{"max_user_instances", 64},
	} {
		raw, err := os.ReadFile("/proc/sys/fs/inotify/" + l.file)
		if err != nil {
			checks = append(checks, check{Name: "inotify " + l.file, Status: statusLimited, Detail: err.Error(), Advice: "fs/watch may not work"})
			continue
		}
		limit, _ := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64)
		checks = append(checks, watchCheck("inotify "+l.file, limit, l.want))
	}
	return checks
}
