package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
)

// app is what the commands of one invocation share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	// started is set once the arguments have been understood and a command runs.
	started bool
}

// commands returns all commands, in the order that help lists them.
func (a *app) commands() []*cobra.Command {
	return slices.Concat([]*cobra.Command{
		newServeCmd(a),
		newExecServerCmd(a),
		newRelayCmd(a),
	}, a.clientCommands(), []*cobra.Command{
		newGCCmd(a),
		newFsckCmd(a),
		newFingerprintCmd(a),
		newDoctorCmd(a),
		newVersionCmd(a),
		newCompletionCmd(a),
		newManCmd(),
	})
}

const rootLong = `wsd runs processes and reads and writes files for AI agents, over the wire of
the codex exec-server.

Start a server in one terminal and use it from another:

  wsd serve
  wsd exec -- make -j2

A machine that cannot be reached serves over a relay: see 'wsd relay --help'.

Exit status: 0 success, 1 failure, 2 a command line that wsd does not
understand. 'wsd exec' and 'wsd shell' return the status of what they ran.`

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "wsd",
		Short:             "Run processes and move files for AI agents",
		Long:              rootLong,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              unknownCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun:  func(*cobra.Command, []string) { a.started = true },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef(helpHint(cmd), "%w", err)
	})
	root.AddCommand(a.commands()...)
	return root
}

// run parses args and runs the command they name. A command's own
// PersistentPreRun, if any, must set a.started.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.newRoot()
	root.SetArgs(remoteArgs(args))
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.started {
		if _, ok := errors.AsType[*usageError](err); !ok {
			err = usagef(helpHint(cmd), "%w", err)
		}
	}
	return report(a.stderr, err)
}

func helpHint(cmd *cobra.Command) string {
	return fmt.Sprintf("'%s --help' shows what it takes, with examples", cmd.CommandPath())
}

// unknownCommand refuses arguments of the root, which only name commands.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "'wsd --help' lists the commands"
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = fmt.Sprintf("did you mean 'wsd %s'?", similar[0])
	}
	return usagef(hint, "unknown command %q", args[0])
}

// noArgs refuses every argument.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef(helpHint(cmd), "'%s' takes no arguments, got %q", cmd.CommandPath(), args[0])
}
