package main

import (
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

func TestLimitFlag(t *testing.T) {
	var f limitFlag
	for _, s := range []string{"cpu=1.5s,memory=512M", "processes=64, file-size=1GiB ,wall=1m", "memory=2K"} {
		if err := f.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	l := f.limits
	if *l.CPUMs != 1500 || *l.MemoryBytes != 2<<10 || *l.Processes != 64 || *l.FileSizeBytes != 1<<30 || *l.WallMs != uint64(time.Minute.Milliseconds()) {
		t.Errorf("%d %d %d %d %d", *l.CPUMs, *l.MemoryBytes, *l.Processes, *l.FileSizeBytes, *l.WallMs)
	}
	for limit, want := range map[string]string{
		protocol.LimitFileSize: "a process wrote more than --limit file-size=1GiB to a file and was ended",
		protocol.LimitMemory:   "the command went beyond --limit memory=2K and was ended with all that it started",
	} {
		if got := f.exceeded(limit); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, s := range []string{
		"", "memory", "memory=", "memory=0", "memory=5MM", "memory=-1", "cpu=5", "cpu=-1s", "processes=1K", "disk=1G", "memory=99999999999T",
		"cpu=1us", "cpu=0s", "processes=99999999999999999999", "cpu=1s,", "cpu=1s,,wall=1s",
	} {
		if err := new(limitFlag).Set(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}
