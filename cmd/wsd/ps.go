package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
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
		Short: "List what the server runs",
		Long: `Lists the processes of all of the server's sessions and, where it serves a
workspace, the durable runs of 'wsd exec --detach' and of other clients, the oldest
first. The first column is what 'wsd kill' takes, and 'wsd log' of durable runs and
of what has exited.

` + connectHelp + `

Exit status: 0; 1 on failure.`,
		Example: "  wsd ps\n  wsd ps --all --json\n  wsd exec --detach -- make -j2 && wsd ps",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return connect.withClient(cmd.Context(), a, func(ctx context.Context, c *client.Client) error {
				list, truncated, err := psList(ctx, c, all)
				if err != nil {
					return err
				}
				if truncated {
					fmt.Fprintln(a.stderr, "wsd ps: there are too many durable runs that have exited: the oldest are left out")
				}
				if asJSON {
					return writeJSON(a.stdout, list)
				}
				return printProcesses(a.stdout, list, time.Now())
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list what has exited too, for as long as it is recorded")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	connect.add(cmd.Flags())
	return cmd
}

func printProcesses(w io.Writer, list []psEntry, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tPID\tAGE\tSTATE\tCOMMAND")
	for i := range list {
		p := &list[i]
		pid := "-"
		if p.PID != nil {
			pid = strconv.Itoa(*p.PID)
		}
		row(table, p.ProcessID, pid, age(now.Sub(p.StartedAt)), p.state(), p.line)
	}
	return table.Flush()
}

// state is what a process does, in words.
func (p *psEntry) state() string {
	var words []string
	switch {
	case !p.Exited:
		words = append(words, "running")
	case p.ExitCode != nil && *p.ExitCode >= 0: // -1 of a durable run says that nobody saw its end
		words = append(words, "exited", strconv.Itoa(*p.ExitCode))
	default:
		words = append(words, "exited")
	}
	switch {
	case p.Durable:
		words = append(words, "durable")
	case p.TTY && !p.Exited:
		words = append(words, "tty")
	}
	return strings.Join(words, " ")
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
	return oneLine(strings.Join(words, " "))
}

// oneLine shows a line of a shell in one line.
func oneLine(text string) string {
	line := []rune(safe(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)))
	if len(line) > maxCommandLine {
		return string(line[:maxCommandLine-1]) + "…"
	}
	return string(line)
}

func quoteWord(word string) string {
	for _, r := range word {
		if r < ' ' || r == 0x7f {
			return strconv.Quote(word)
		}
	}
	return shellWord(word)
}

// shellWord is a word as a shell has to read it to get it.
func shellWord(word string) string {
	if plainWord(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plainWord reports whether a word means itself to a shell.
func plainWord(word string) bool {
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./=:,@%+", r)
	}
	return word != "" && strings.IndexFunc(word, special) < 0
}
