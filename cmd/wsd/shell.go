package main

import (
	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/protocol"
)

func newShellCmd(a *app) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "shell [flags]",
		Short: "Open an interactive shell at the server",
		Long: `Opens your login shell at the server, on a terminal that follows the size of
yours. When standard input is not a terminal, the shell reads commands from it.
The shell goes on when the connection is lost and found again.

` + connectHelp + `

Exit status: the shell's own; 255 when wsd or the connection failed; otherwise
as 'wsd exec'.`,
		Example: `  wsd shell
  wsd shell --cwd src --sandbox workspace-write
  echo 'uname -a' | wsd shell`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("write 'wsd exec -- "+args[0]+"' to run a command", "'wsd shell' takes no arguments, got %q", args[0])
			}
			return flags.check()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := &remoteRun{app: a, stdin: a.stdin, limit: &flags.limit}
			if isTerminal(a.stdin) {
				r.terminal = newTerminal(a.stdin)
			}
			return flags.run(cmd.Context(), r, func(info protocol.EnvironmentInfo) []string {
				if info.Shell.Path == "" {
					return []string{"sh", "-l"}
				}
				return []string{info.Shell.Path, "-l"}
			})
		},
	}
	flags.add(cmd.Flags())
	return cmd
}
