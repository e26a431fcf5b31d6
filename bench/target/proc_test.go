package target

import (
	"testing"
	"time"
)

func TestParseCPU(t *testing.T) {
	const stat = "4711 (a) b (c)) S 1 4711 4711 0 -1 4194560 900 80 0 0 123 45 6 7 20 0 9 0 100 1000 20\n"
	self, children, err := parseCPU([]byte(stat))
	if err != nil || self != 1680*time.Millisecond || children != 130*time.Millisecond {
		t.Errorf("parseCPU = %v, %v, %v", self, children, err)
	}
	for _, bad := range []string{"", "1 (a) S 1 2 3", "1 (a) S 1 1 1 0 -1 1 1 1 1 1 x 1 1 1 20"} {
		if _, _, err := parseCPU([]byte(bad)); err == nil {
			t.Errorf("parseCPU(%q) has no error", bad)
		}
	}
}

func TestParseIO(t *testing.T) {
	const io = "rchar: 1\nwchar: 2000\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 9\n"
	disk, calls, err := parseIO([]byte(io))
	if err != nil || disk != 4096 || calls != 2000 {
		t.Errorf("parseIO = %d, %d, %v", disk, calls, err)
	}
	for _, bad := range []string{"", "wchar: 1\n", "write_bytes: 1\n", "wchar: x\nwrite_bytes: 1\n"} {
		if _, _, err := parseIO([]byte(bad)); err == nil {
			t.Errorf("parseIO(%q) has no error", bad)
		}
	}
}

func TestParseKiB(t *testing.T) {
	const status = "Name:\tVmHWM: 9 kB\nVmPeak:\t  900 kB\nVmHWM:\t   1024 kB\nVmRSS:\t     12 kB\n"
	if n, err := parseKiB([]byte(status), "VmHWM:"); err != nil || n != 1<<20 {
		t.Errorf("VmHWM: %d, %v", n, err)
	}
	if _, err := parseKiB([]byte(status), "VmSwap:"); err == nil {
		t.Error("a size that is not there is read")
	}
}

func TestUsageArithmetic(t *testing.T) {
	before := Usage{CPU: 1, Disk: 2, Calls: 3, Peak: 40}
	after := Usage{CPU: 11, Disk: 22, Calls: 33, Peak: 44}
	if got, want := after.Since(before), (Usage{CPU: 10, Disk: 20, Calls: 30, Peak: 44}); got != want {
		t.Errorf("Since = %+v, want %+v", got, want)
	}
	if got, want := after.Plus(before), (Usage{CPU: 12, Disk: 24, Calls: 36, Peak: 84}); got != want {
		t.Errorf("Plus = %+v, want %+v", got, want)
	}
	if got, want := after.Then(before), (Usage{CPU: 12, Disk: 24, Calls: 36, Peak: 44}); got != want {
		t.Errorf("Then = %+v, want %+v", got, want)
	}
}
