package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// limitNames are the limits as --limit writes them, by their names on the wire.
var limitNames = map[string]string{
	protocol.LimitCPU: "cpu", protocol.LimitMemory: "memory", protocol.LimitProcesses: "processes",
	protocol.LimitFileSize: "file-size", protocol.LimitWall: "wall",
}

// limitFlag is --limit.
type limitFlag struct {
	limits *protocol.ProcessLimits // nil for none
	given  map[string]string       // values by name, as they were written
}

// String implements pflag.Value.
func (f *limitFlag) String() string {
	var parts []string
	for name, value := range f.given {
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (*limitFlag) Type() string { return "limits" }

// Set implements pflag.Value. A limit that is given twice has the later value.
func (f *limitFlag) Set(s string) error {
	if f.limits == nil {
		f.limits, f.given = new(protocol.ProcessLimits), make(map[string]string)
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("%q has no value: write memory=512M", part)
		}
		if err := f.set(name, value); err != nil {
			return err
		}
		f.given[name] = value
	}
	return nil
}

func (f *limitFlag) set(name, value string) error {
	var n uint64
	var to **uint64
	switch name {
	case "cpu", "wall":
		to = &f.limits.CPUMs
		if name == "wall" {
			to = &f.limits.WallMs
		}
		if d, err := time.ParseDuration(value); err == nil && d > 0 {
			n = uint64(max(d.Milliseconds(), 1))
		}
	case "memory", "file-size":
		to = &f.limits.MemoryBytes
		if name == "file-size" {
			to = &f.limits.FileSizeBytes
		}
		if size, err := parseSize(value); err == nil {
			n = uint64(size)
		}
	case "processes":
		to = &f.limits.Processes
		n, _ = strconv.ParseUint(value, 10, 32) // 0 is refused
	default:
		return fmt.Errorf("no limit is called %q: there are cpu, memory, processes, file-size and wall", name)
	}
	if n == 0 {
		return fmt.Errorf("%s=%s is no limit: write it as in cpu=10s,memory=512M,processes=64,file-size=1G,wall=1m", name, value)
	}
	*to = &n
	return nil
}

// exceeded says that a command has gone beyond a limit of the flag.
func (f *limitFlag) exceeded(limit string) string {
	name := limitNames[limit]
	return fmt.Sprintf("the command went beyond --limit %s=%s and was ended with all that it started", name, f.given[name])
}

// unenforced names the limits that a server does not enforce, as --limit writes them.
func unenforced(reports []protocol.LimitReport) (names []string) {
	for _, r := range reports {
		if !r.Enforced {
			names = append(names, limitNames[r.Name])
		}
	}
	return names
}
