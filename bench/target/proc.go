package target

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat. The kernel tells user programs of hundredths
// whatever its own clock does.
const tick = 10 * time.Millisecond

// A Usage is what a process has cost, with those of its children that it has waited for.
type Usage struct {
	CPU   time.Duration // in user mode and in the kernel
	Disk  int64         // bytes of file pages that it made dirty, whole pages
	Calls int64         // bytes it gave to write calls, of files, sockets and pipes
	Peak  int64         // the most resident memory, in bytes
}

// Since is what was used after before was taken. The peak is not a sum: it is u's.
func (u Usage) Since(before Usage) Usage {
	return Usage{CPU: u.CPU - before.CPU, Disk: u.Disk - before.Disk, Calls: u.Calls - before.Calls, Peak: u.Peak}
}

// Plus is what two processes have cost that run at the same time: their peaks add up.
func (u Usage) Plus(o Usage) Usage {
	return Usage{CPU: u.CPU + o.CPU, Disk: u.Disk + o.Disk, Calls: u.Calls + o.Calls, Peak: u.Peak + o.Peak}
}

// Then is what two processes have cost of which one runs after the other: the larger peak
// counts.
func (u Usage) Then(o Usage) Usage {
	peak := max(u.Peak, o.Peak)
	u = u.Plus(o)
	u.Peak = peak
	return u
}

// parseCPU reads the processor time of a process and that of the children it has waited
// for from its /proc/PID/stat.
func parseCPU(stat []byte) (self, children time.Duration, err error) {
	// The name of the program may hold anything, a parenthesis too.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 15 {
		return 0, 0, fmt.Errorf("a stat of %d fields", len(f))
	}
	var v [4]int64 // utime, stime, cutime, cstime: fields 14 to 17, 12 to 15 after the name
	for i := range v {
		if v[i], err = strconv.ParseInt(string(f[11+i]), 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return time.Duration(v[0]+v[1]) * tick, time.Duration(v[2]+v[3]) * tick, nil
}

// parseIO reads the bytes written from a /proc/PID/io.
func parseIO(io []byte) (disk, calls int64, err error) {
	disk, err = field(io, "write_bytes:")
	calls, err2 := field(io, "wchar:")
	return disk, calls, errors.Join(err, err2)
}

// parseKiB reads one of the sizes in a /proc/PID/status, in bytes.
func parseKiB(status []byte, name string) (int64, error) {
	kib, err := field(status, name)
	return kib << 10, err
}

// field reads the number of the line that begins with name.
func field(data []byte, name string) (int64, error) {
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("there is no %s", name)
}
