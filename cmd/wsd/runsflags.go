package main

import (
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/server/workspace"
)

// runsFlags say what is kept of durable runs.
type runsFlags struct {
	log   byteSize // of each
	age   time.Duration
	bytes byteSize
}

// The flags of runsFlags.
const (
	flagRunLog    = "run-log-bytes"
	flagRunsAge   = "runs-max-age"
	flagRunsBytes = "runs-max-bytes"
)

func (f *runsFlags) add(flags *pflag.FlagSet) {
	f.log, f.bytes = shell.DefaultMaxLogBytes, eventlog.DefaultKeepBytes
	flags.Var(&f.log, flagRunLog, "keep the newest `SIZE` of what a durable run prints, such as 4M or 1G\n(default also from $"+envMaxLog+")")
	durationFlag(flags, &f.age, flagRunsAge, eventlog.DefaultKeepFor, "forget commands a `DURATION` after their end; 0s keeps them for ever")
	flags.Var(&f.bytes, flagRunsBytes, "forget the oldest commands that have ended when all have printed\nmore than `SIZE`; 0 keeps them all")
}

func (f *runsFlags) check() error {
	switch {
	case f.age < 0:
		return usagef("write --"+flagRunsAge+" 30d", "invalid value %v for --%s: it must not be negative", f.age, flagRunsAge)
	case f.log <= 0:
		return usagef("--"+flagRunLog+" 16M is the default", "invalid value 0 for --%s: a run keeps something", flagRunLog)
	}
	return nil
}

// config puts what the flags say into a Config, in which 0 stands for the default.
func (f *runsFlags) config(cfg *workspace.Config) {
	cfg.MaxLogBytes, cfg.RunsAge, cfg.RunsBytes = int64(f.log), f.age, int64(f.bytes)
	if f.age == 0 {
		cfg.RunsAge = math.MaxInt64
	}
	if f.bytes == 0 {
		cfg.RunsBytes = math.MaxInt64
	}
}
