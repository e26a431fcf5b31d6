package main

import (
	"errors"
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
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return fmt.Errorf("%q is no limit: write them as in %s", part, limitExample)
		}
		if err := f.set(name, value); err != nil {
			return err
		}
		f.given[name] = value
	}
	return nil
}

// limitExample has all limits there are.
const limitExample = "cpu=10s,memory=512M,processes=64,file-size=1G,wall=1m"

func (f *limitFlag) set(name, value string) error {
	var n uint64
	var err error
	var to **uint64
	switch name {
	case "cpu":
		to = &f.limits.CPUMs
		n, err = parseLimitTime(value)
	case "wall":
		to = &f.limits.WallMs
		n, err = parseLimitTime(value)
	case "memory":
		to = &f.limits.MemoryBytes
		n, err = parseLimitSize(value)
	case "file-size":
		to = &f.limits.FileSizeBytes
		n, err = parseLimitSize(value)
	case "processes":
		to = &f.limits.Processes
		if n, err = strconv.ParseUint(value, 10, 32); err != nil {
			err = errors.New("want a number of processes and threads, such as 64")
		}
	default:
		return fmt.Errorf("no limit is called %q: write them as in %s", name, limitExample)
	}
	if err == nil && n == 0 {
		err = errors.New("want more than 0; for no limit leave it out")
	}
	if err != nil {
		return fmt.Errorf("%s=%s: %w", name, value, err)
	}
	*to = &n
	return nil
}

// parseLimitTime returns milliseconds.
func parseLimitTime(value string) (uint64, error) {
	d, err := parseDuration(value)
	if err != nil || d < 0 || d%time.Millisecond != 0 {
		return 0, errors.New("want a time in whole milliseconds with its unit, such as 300ms, 10s, 5m, 1h30m or 30d")
	}
	return uint64(d.Milliseconds()), nil
}

// parseLimitSize returns bytes.
func parseLimitSize(value string) (uint64, error) {
	n, err := parseSize(value)
	return uint64(n), err
}

// exceeded says that a command has gone beyond a limit of the flag.
func (f *limitFlag) exceeded(limit string) string {
	name := limitNames[limit]
	if limit == protocol.LimitFileSize {
		return fmt.Sprintf("a process wrote more than --limit %s=%s to a file and was ended", name, f.given[name])
	}
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
