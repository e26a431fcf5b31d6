package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

// runFlags are those of exec and shell.
type runFlags struct {
	connect connectFlags
	cwd     string
	env     []string
	sandbox string
	timeout time.Duration
	limit   limitFlag
}

func (f *runFlags) add(flags *pflag.FlagSet) {
	flags.StringVarP(&f.cwd, "cwd", "C", "", "run in the directory `PATH` of the server (default the server's own)")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "set `NAME=VALUE` for the command, or NAME to pass yours on;\nmay be given again")
	flags.StringVar(&f.sandbox, "sandbox", "", "confine the command; `MODE` is read-only or workspace-write")
	durationFlag(flags, &f.timeout, "timeout", 0, "end the command after this time, with SIGTERM and then SIGKILL")
	flags.Var(&f.limit, "limit", "end the command, and all that it starts, beyond such `LIMITS`:\n"+limitExample)
	f.connect.add(flags)
}

// command is what the flags say of a command.
func (f *runFlags) command(ctx context.Context, c *client.Client, argv []string) (client.Command, error) {
	cmd := client.Command{Argv: argv, Timeout: f.timeout, Limits: f.limit.limits}
	info, err := c.Environment(ctx)
	if err != nil {
		return cmd, err
	}
	dir := f.cwd
	if dir == "" {
		dir = "."
	}
	if info.Cwd == "" && !path.IsAbs(dir) {
		return cmd, errors.New("the server does not tell its directory; give --cwd an absolute path")
	}
	if cmd.Dir, err = c.Abs(ctx, dir); err != nil {
		return cmd, err
	}
	switch f.sandbox {
	case "read-only":
		cmd.Sandbox = client.ReadOnly(cmd.Dir)
	case "workspace-write":
		cmd.Sandbox = client.WorkspaceWrite(cmd.Dir)
	}
	cmd.Env = f.environment()
	return cmd, nil
}

// environment is what --env says: NAME=VALUE, or NAME for the value that it has here. nil
// is nothing.
func (f *runFlags) environment() map[string]string {
	var env map[string]string
	for _, entry := range f.env {
		name, value, ok := strings.Cut(entry, "=")
		if !ok {
			value = os.Getenv(name)
		}
		if env == nil {
			env = make(map[string]string)
		}
		env[name] = value
	}
	return env
}

func (f *runFlags) check() error {
	switch f.sandbox {
	case "", "read-only", "workspace-write":
	default:
		return usagef("write --sandbox read-only or --sandbox workspace-write", "unknown sandbox %q", f.sandbox)
	}
	for _, entry := range f.env {
		if name, _, _ := strings.Cut(entry, "="); name == "" {
			return usagef("write --env NAME=VALUE", "--env %q has no name", entry)
		}
	}
	if f.timeout < 0 {
		return usagef("write --timeout 30s", "negative --timeout %v", f.timeout)
	}
	return nil
}

// patient are the options for running a command in the foreground: its output waits
// for us as it would for a full pipe, however long that takes.
func patient(a *app) client.Options {
	return client.Options{ClientName: "wsd", StallTimeout: -1, OnState: a.tellOfCuts()}
}

// tellOfCuts says on a terminal that the connection is lost and found again.
func (a *app) tellOfCuts() func(client.StateChange) {
	if !isTerminal(a.stderr) {
		return nil
	}
	lost := false
	return func(change client.StateChange) {
		switch {
		case change.State == client.StateConnecting && change.Attempt == 2 && !lost:
			lost = true
			fmt.Fprintf(a.stderr, "\r\nwsd: connection lost, trying again\r\n")
		case change.State == client.StateConnected && lost:
			lost = false
			fmt.Fprintf(a.stderr, "\r\nwsd: connected again\r\n")
		}
	}
}

func newExecCmd(a *app) *cobra.Command {
	var flags runFlags
	var tty, noStdin, asJSON, detached bool
	sync := execSync{flags: syncFlags{connect: &flags.connect}}
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARG]...",
		Short: "Run a command at the server",
		Long: `Runs a command at the server as if it ran here: its output as it comes, your
standard input, your signals, its exit status. It goes on, without losing or
doubling anything, when the connection is lost and found again.

The command is not given to a shell: write 'wsd exec -- sh -c "a | b"' for that.
It has the server's environment and what --env adds. With -t it runs on a
terminal of its own. A third ^C kills a command that does not heed the first; if
the server does not answer that, or a SIGTERM, for 5 s, wsd ends without it.
What it leaves running with its output open ends with this wsd.

` + connectHelp + `

With --sync the command runs in the server's workspace, which is brought in step
with your directory (--dir) before: it sees what you have changed. What it changed
is brought back when it has ended, and named on standard error. Where --dir is above
your directory it runs in the same place below the workspace. Inside a directory that
'wsd sync' keeps in step, name the one you mean with --dir. Conflicts, and names that
are withheld or left alone, are as with 'wsd sync'.

With --detach the command runs in the server's workspace as a durable run, reads an
end of file, and goes on by itself: its ID is printed, 'wsd log ID' prints its
output. It has the environment that the workspace's runs have.

With --limit the command and all that it starts are held to limits, also what is left
running when the command ends; that is killed when wsd's session at the server ends.
cpu is the processor time of all, memory what they have besides files, processes
counts processes and threads, wall is the time since the start: beyond one of these
all are killed at once, without the SIGTERM of --timeout, and the exit status is 137.
file-size is for each file by itself: it ends only the process that writes, with
SIGXFSZ. Standard error names the limit. Times have a unit (ms, s, m, h, d), sizes may
have one (K, M, G, T: powers of 1,024); --limit may be given again. With --json
"limits" says what enforces each at that server. Runs of --detach have no limits.

With --json each line is an object: {"type":"started","processId","limits"}, then
{"type":"output","seq","stream","text" or "base64"}, at last {"type":"exited",
"exitCode","signal","timedOut","limit","sandboxDenied"}; with --sync then
{"type":"change","path","kind","what","size"}, {"type":"withheld","path","kind","why"}
{"type":"skipped","side","why","path","error"}, and {"type":"undone","count"} and
{"type":"held","count"}. {"type":"made","side","path"} comes first, if a directory
was made.

Exit status: the command's own; 128 plus the number of the signal that ended it;
124 when --timeout ended it; 126 when it cannot be executed; 127 when it is not
found; 255 when wsd, the connection or --cwd failed; 2 for a command line that
wsd does not understand. With --sync 3 when it did not run, or nothing came back,
since a flag must say that it is meant or there were conflicts and --on-conflict is
fail; when the command ended with 0, 5 if something could not be read or cannot be
synchronised, which is named: the command ran without it, and 6 if paths are held in
conflict. With --detach 0 once the command is started.`,
		Example: `  wsd exec -- make -j2
  wsd exec --cwd src --env CGO_ENABLED=0 -- go test ./...
  tar c . | wsd exec -- tar x -C /tmp/copy
  wsd exec -t -- htop
  wsd exec --sync -- make test
  wsd log --follow $(wsd exec --detach -- make -j2)
  wsd exec --sandbox read-only --timeout 30s -- ./untrusted.sh
  wsd exec --limit memory=2G,processes=200 -- npm test`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("write 'wsd exec -- make -j2'", "no command to run")
			}
			if err := sync.check(cmd); err != nil {
				return err
			}
			if detached {
				if err := checkDetached(cmd); err != nil {
					return err
				}
			}
			return flags.check()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if detached {
				return flags.detach(cmd.Context(), a, args)
			}
			r := &remoteRun{app: a, events: asJSON, limit: &flags.limit}
			if !noStdin && !isNull(a.stdin) {
				r.stdin = a.stdin
			}
			if tty {
				r.terminal = newTerminal(a.stdin)
			}
			if sync.on {
				return sync.run(cmd.Context(), &flags, r, args)
			}
			return flags.run(cmd.Context(), r, func(protocol.EnvironmentInfo) []string { return args })
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "run the command on a terminal")
	cmd.Flags().BoolVarP(&noStdin, "no-stdin", "n", false, "let the command read an end of file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.Flags().BoolVar(&detached, "detach", false, "leave the command to the server's workspace and print its ID, for\n'wsd log'")
	sync.add(cmd.Flags())
	flags.add(cmd.Flags())
	return cmd
}

// run connects and runs the command that argv gives.
func (f *runFlags) run(ctx context.Context, r *remoteRun, argv func(protocol.EnvironmentInfo) []string) error {
	catchBrokenPipes()
	c, err := f.connect.dial(ctx, r.app, patient(r.app))
	if err != nil {
		return transportError(err)
	}
	defer c.Close()
	info, err := c.Environment(ctx)
	if err != nil {
		return transportError(err)
	}
	r.client = c
	if r.command, err = f.command(ctx, c, argv(info)); err != nil {
		return transportError(err)
	}
	return r.run(ctx)
}

// transportError makes err one of wsd's own, unless it is a fault of the command line.
func transportError(err error) error {
	if _, ok := errors.AsType[*usageError](err); ok {
		return err
	}
	return &exitError{exitTransport, explainGone(err)}
}

// explainGone says what a user may do about a command that the server has no longer.
func explainGone(err error) error {
	if errors.Is(err, client.ErrSessionLost) || errors.Is(err, client.ErrUnknownProcess) {
		return withHint(err, "'wsd history' tells what became of the command")
	}
	return err
}
