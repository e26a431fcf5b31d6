package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/history"
	"github.com/wsd-dev/wsd/server/workspace"
)

// Values of --history.
const (
	historyFull   = "full"
	historyNoArgs = "no-args"
	historyOff    = "off"
)

const (
	// historyBytes bounds the output that is kept by a server without a workspace.
	historyBytes = 256 << 20
	// historyDelay is how long what such a server records may wait to be written: it must
	// not slow commands down.
	historyDelay = 200 * time.Millisecond
)

// historyFlags say what is recorded of the commands that clients run.
type historyFlags struct {
	mode  string
	audit string
}

func (f *historyFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.mode, "history", historyFull, "record the commands that clients run, for 'wsd history': `MODE` is full,\nno-args (names of programs only) or off")
	flags.StringVar(&f.audit, "audit-log", "", "append a line of JSON to `PATH` for each command that has ended;\n- is standard error")
}

func (f *historyFlags) check() error {
	if !slices.Contains([]string{historyFull, historyNoArgs, historyOff}, f.mode) {
		return usagef("write --history full, no-args or off", "invalid value %q for --history", f.mode)
	}
	if f.audit != "" && f.mode == historyOff {
		return usagef("write --history full or --history no-args too", "--audit-log needs a record of commands, and --history is off")
	}
	return nil
}

// openAudit opens the audit log, which is of this server alone. ended, nil without one, writes a
// line for a command that has ended.
func (f *historyFlags) openAudit(a *app, log *slog.Logger) (ended func(*eventlog.Record), closeAudit func(), err error) {
	out, closeAudit, err := openAudit(a, f.audit)
	if out == nil {
		return nil, closeAudit, err
	}
	return func(r *eventlog.Record) {
		if err := writeCommand(out, history.Command(r)); err != nil {
			log.Error("a command is missing in the audit log", "command", r.Log, "err", err)
		}
	}, closeAudit, nil
}

// A commandLog records the commands of a server without a workspace, in a file of its own
// for the directory that it serves. The file is opened when there is something to write:
// no server starts later for it, nor fails.
type commandLog struct {
	rec  *eventlog.Recorder // nil for nothing
	file *lazyStore
}

// open opens the record of commands of a server that has no workspace.
func (f *historyFlags) open(ctx context.Context, ended func(*eventlog.Record), log *slog.Logger) (*commandLog, error) {
	if f.mode == historyOff {
		return new(commandLog), nil
	}
	l := &commandLog{file: &lazyStore{log: log}}
	var err error
	l.rec, err = eventlog.Open(ctx, eventlog.Config{
		Store: l.file, KeepBytes: historyBytes, Later: historyDelay, NoArgs: f.mode == historyNoArgs, Ended: ended, Logger: log,
	})
	return l, err
}

// Close writes what is left.
func (l *commandLog) Close() error {
	if l.rec == nil {
		return nil
	}
	return errors.Join(l.rec.Close(), l.file.Close())
}

// historyStore is the file for the working directory.
func historyStore() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	state, err := workspace.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "history", workspace.StoreName(dir)+".db"), nil
}
