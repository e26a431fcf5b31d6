package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// withClient runs fn with a connection that ends after it.
func (f *connectFlags) withClient(ctx context.Context, a *app, fn func(context.Context, *client.Client) error) error {
	c, err := f.dial(ctx, a, client.Options{ClientName: "wsd"})
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(ctx, c)
}

func newPsCmd(a *app) *cobra.Command {
	var connect connectFlags
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: "List the processes that the server runs",
		Long: `Lists the processes of all of the server's sessions, the oldest first. The first
column is what 'wsd kill' takes.

` + connectHelp + `

Exit status: 0; 1 on failure.`,
		Example: "  wsd ps\n  wsd ps --all --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return connect.withClient(cmd.Context(), a, func(ctx context.Context, c *client.Client) error {
				list, err := c.Processes(ctx, client.ScopeServer)
				if err != nil {
					return err
				}
				if !all {
					list = stillRunning(list)
				}
				if asJSON {
					return writeJSON(a.stdout, psList(list))
				}
				return printProcesses(a.stdout, list, time.Now())
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list processes that have exited too, for as long as their output is kept")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	connect.add(cmd.Flags())
	return cmd
}

func stillRunning(list []protocol.ProcessInfo) []protocol.ProcessInfo {
	var out []protocol.ProcessInfo
	for _, p := range list {
		if !p.Exited {
			out = append(out, p)
		}
	}
	return out
}

// psEntry is a process in the output of --json.
type psEntry struct {
	ProcessID string    `json:"processId"`
	SessionID string    `json:"sessionId"`
	PID       int       `json:"pid"`
	Argv      []string  `json:"argv"`
	Cwd       string    `json:"cwd"` // a path
	TTY       bool      `json:"tty"`
	StartedAt time.Time `json:"startedAt"`
	Exited    bool      `json:"exited"`
	ExitCode  *int      `json:"exitCode"`
	Sandbox   string    `json:"sandbox"` // "none", or the kind of sandbox it runs in
}

func psList(list []protocol.ProcessInfo) []psEntry {
	out := make([]psEntry, 0, len(list))
	for _, p := range list {
		cwd, err := fileuri.Path(p.Cwd)
		if err != nil {
			cwd = p.Cwd
		}
		out = append(out, psEntry{
			ProcessID: p.ProcessID, SessionID: p.SessionID, PID: p.PID, Argv: p.Argv, Cwd: cwd, TTY: p.TTY,
			StartedAt: time.UnixMilli(p.StartedAtMs).UTC(), Exited: p.Exited, ExitCode: p.ExitCode, Sandbox: p.SandboxType,
		})
	}
	return out
}

func printProcesses(w io.Writer, list []protocol.ProcessInfo, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tPID\tAGE\tSTATE\tCOMMAND")
	for _, p := range list {
		state := "running"
		switch {
		case p.Exited && p.ExitCode != nil:
			state = "exited " + strconv.Itoa(*p.ExitCode)
		case p.Exited:
			state = "exited"
		case p.TTY:
			state = "running tty"
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", p.ProcessID, p.PID, age(now.Sub(time.UnixMilli(p.StartedAtMs))), state, commandLine(p.Argv))
	}
	return table.Flush()
}

// age is a duration in one unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(int(d.Seconds()), 0))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// maxCommandLine is where the command line is cut in a table.
const maxCommandLine = 100

// commandLine shows argv in one line, quoted where a shell would need it.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = quoteWord(arg)
	}
	line := []rune(strings.Join(words, " "))
	if len(line) > maxCommandLine {
		return string(line[:maxCommandLine-1]) + "…"
	}
	return string(line)
}

func quoteWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	for _, r := range word {
		if r < ' ' || r == 0x7f {
			return strconv.Quote(word)
		}
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
