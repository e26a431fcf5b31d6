package workspace

import (
	"context"
	"fmt"
	"path"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/shell"
)

// SecretVariable is the variable of the environment by which a server is told its secret.
// Commands never get it.
const SecretVariable = "RPC_CLIENT_SECRET"

// openLog opens the log of commands, and ends those that were live when the server before
// died.
func (w *Workspace) openLog(ctx context.Context, cfg *Config) (err error) {
	age := cfg.RunsAge
	if age > 0 {
		age = max(age, shell.DefaultTTL)
	}
	w.Recorder, err = eventlog.Open(ctx, eventlog.Config{Store: w.DB.Log(), KeepFor: age, KeepBytes: cfg.RunsBytes, NoHistory: cfg.NoHistory, NoArgs: cfg.NoArgs, Ended: cfg.CommandEnded, Logger: w.log})
	return err
}

// openRuns makes the durable runs: in the workspace unless they ask for another directory,
// and in its view. What they write is in the tree before anybody is told that they ended.
func (w *Workspace) openRuns(cfg *Config) (err error) {
	w.Runs, err = shell.New(shell.Config{
		Recorder: w.Recorder,
		Dir:      func(cwd string) (string, error) { return w.hostDir(cwd), nil },
		Prepare: func(cmd *process.Command) error {
			w.Mount.Enter(cmd)
			return nil
		},
		Secrets:     []string{SecretVariable},
		Settle:      w.Disk.SettleEnded,
		MaxLogBytes: cfg.MaxLogBytes,
		Logger:      w.log,
	})
	if err != nil {
		return fmt.Errorf("open the runs: %w", err)
	}
	return nil
}

// hostDir is the directory of a run by this program's names. A relative one is in the
// workspace.
func (w *Workspace) hostDir(cwd string) string {
	if !path.IsAbs(cwd) {
		cwd = path.Join(w.MountPoint, cwd)
	}
	return w.Mount.Host(cwd)
}
