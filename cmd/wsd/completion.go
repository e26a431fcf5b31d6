package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// completionShells are the shells that wsd can complete in.
var completionShells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell",
		Long: `Prints the script that has bash, zsh, fish or powershell complete the commands
and flags of wsd.

Exit status: 0.`,
		Example: `  source <(wsd completion bash)
  wsd completion zsh > "${fpath[1]}/_wsd"
  wsd completion fish > ~/.config/fish/completions/wsd.fish`,
		ValidArgs: completionShells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("for instance 'wsd completion bash'", "'%s' takes one shell: %s", cmd.CommandPath(), strings.Join(completionShells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.stdout)
			default:
				return usagef("for instance 'wsd completion bash'", "no completion for %q, only for %s", args[0], strings.Join(completionShells, ", "))
			}
		},
	}
}
