package shell

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/eventlog"
)

// Config is what a Shell is told. Only Recorder must be set.
type Config struct {
	// Recorder keeps the logs of the runs, for TTL at least. It is closed after the Shell.
	Recorder *eventlog.Recorder
	// Dir maps the directory of a request to one of the host; "" is the default. Its
	// error is told as the reason why the command could not be started. nil takes the
	// path as it is, and "" as the server's directory.
	Dir func(cwd string) (hostDir string, err error)
	// Prepare, if set, may change what is about to be started, such as the view of the
	// file system that it is started in. Its error is told like that of Dir.
	Prepare func(cmd *process.Command) error
	// Environ returns the server's environment; nil means os.Environ. Of it, commands
	// get PATH, HOME, TMPDIR, TZ, LANG, TERM and LC_*, and of COMPUTER_VAR_X the value
	// as X.
	Environ func() []string
	// Secrets are names of variables that commands do not get from the server, not even
	// by way of COMPUTER_VAR_.
	Secrets []string
	// Settle, if set, is called after each command that has ended, once its output was
	// read and before its exit is told: it has what the command wrote taken up since it began.
	// Commands that end meanwhile share the next call, with the earliest of their beginnings,
	// and none waits for longer than a moment. Its error is logged.
	Settle func(ctx context.Context, since time.Time) error
	// Spawner starts the commands and is closed by the Shell; nil means a
	// process.HostSpawner.
	Spawner process.Spawner

	// MaxLogBytes is how much output of a run is kept, the newest; 0 for DefaultMaxLogBytes.
	// GetExec finds only runs that have not printed more.
	MaxLogBytes int64
	TTL         time.Duration // how long GetExec finds a run that has ended; 0 for DefaultTTL
	MaxRuns     int           // at once; 0 for DefaultMaxRuns
	Grace       time.Duration // of Close; 0 for DefaultGrace
	Logger      *slog.Logger  // nil discards
}

func (c Config) withDefaults() Config {
	if c.Dir == nil {
		c.Dir = func(cwd string) (string, error) {
			if cwd == "" {
				return os.Getwd()
			}
			return cwd, nil
		}
	}
	if c.Environ == nil {
		c.Environ = os.Environ
	}
	if c.Spawner == nil {
		c.Spawner = new(process.HostSpawner)
	}
	if c.MaxLogBytes <= 0 {
		c.MaxLogBytes = DefaultMaxLogBytes
	}
	if c.TTL <= 0 {
		c.TTL = DefaultTTL
	}
	if c.MaxRuns <= 0 {
		c.MaxRuns = DefaultMaxRuns
	}
	if c.Grace <= 0 {
		c.Grace = DefaultGrace
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
