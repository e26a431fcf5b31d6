package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

func newHistoryCmd(a *app) *cobra.Command {
	var connect connectFlags
	var h historyPrinter
	var name, text string
	var since time.Duration
	var running, failed bool
	cmd := &cobra.Command{
		Use:   "history [flags]",
		Short: "List the commands that the server has run",
		Long: `Lists the commands that the server has run, of all clients: when each began, how
long it took, how it ended, how much it printed and which client started it, the
newest last. It knows them over restarts too, for 30 days. 'wsd log NUMBER' prints
what a command has printed, while it runs too. A number stays that of its command.
A server without a workspace writes its history 0.2 s late: what ended just before
it was killed may be missing.

With --follow it goes on, with each command as it ends, those too that other servers
of the same directory run, and when the server is started again. Servers record
commands unless they were started with --history off; see 'wsd serve --help'.

` + connectHelp + `

With --json each line is an object, as history/list in the protocol has it, with
the command's directory as a path.

Exit status: 0; 1 on failure.`,
		Example: "  wsd history -n 20\n  wsd history --failed --since 1h --text make\n  wsd history --json --follow",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if h.most < 0 {
				return usagef("write -n 20, or -n 0 for all", "invalid value %d for --number", h.most)
			}
			if since <= 0 && cmd.Flags().Changed("since") {
				return usagef("write --since 1h, a time before now", "invalid value %v for --since", since)
			}
			if running && failed {
				return usagef("write one of them: --running lists commands that have not ended, and --failed those that have",
					"no command both runs and has failed")
			}
			if running && h.follow {
				return usagef("write 'wsd history --running' for those that run now, or 'wsd history --follow' for each as it ends",
					"--running lists commands that have not ended, and --follow waits for their ends")
			}
			p := &h.params
			if cmd.Flags().Changed("client") {
				p.Client = &name
			}
			if text != "" {
				p.Text = &text
			}
			if since > 0 {
				began := time.Now().Add(-since).UnixMilli()
				p.SinceMs = &began
			}
			p.Live, p.Failed = &running, &failed
			h.out = a.stdout
			c, err := connect.dial(cmd.Context(), a, patient(a))
			if err != nil {
				return err
			}
			defer c.Close()
			return h.print(cmd.Context(), c)
		},
	}
	cmd.Flags().IntVarP(&h.most, "number", "n", 100, "list the last `COUNT` commands, 0 for all that are kept")
	cmd.Flags().StringVar(&name, "client", "", "list those of clients that call themselves `NAME`")
	cmd.Flags().StringVar(&text, "text", "", "list those with `TEXT` in the command line: its words as they are,\nwith a space between each, such as 'make -j2'")
	durationFlag(cmd.Flags(), &since, "since", 0, "list those that began within the last `DURATION`, such as 1h or 7d")
	cmd.Flags().BoolVar(&running, "running", false, "list those that run")
	cmd.Flags().BoolVar(&failed, "failed", false, "list those that have ended otherwise than with status 0")
	cmd.Flags().BoolVarP(&h.follow, "follow", "f", false, "go on with each command as it ends")
	cmd.Flags().BoolVar(&h.asJSON, "json", false, "print one JSON object a line")
	connect.add(cmd.Flags())
	return cmd
}

// historyOffHint is about a server without a history.
const historyOffHint = "the server was started with --history off, or is older"

// historyPrinter prints the history.
type historyPrinter struct {
	params         protocol.HistoryParams
	most           int // 0 for all
	follow, asJSON bool
	out            io.Writer
	columns        columns
}

func (h *historyPrinter) print(ctx context.Context, c *client.Client) error {
	list, lastEnd, err := h.list(ctx, c)
	if errors.Is(err, errors.ErrUnsupported) {
		return withHint(err, historyOffHint)
	}
	if err != nil {
		return err
	}
	listed := make(map[int64]bool) // as ended, some of them after lastEnd
	for i := range list {
		listed[list[i].Number] = list[i].EndedAtMs != nil
	}
	if err := h.printAll(list); err != nil || !h.follow {
		return err
	}
	for {
		r, err := c.AwaitHistory(ctx, h.params, lastEnd)
		if err != nil {
			return err
		}
		lastEnd = r.LastEnd
		news := slices.DeleteFunc(r.Commands, func(cmd protocol.HistoryCommand) bool { return listed[cmd.Number] })
		if err := h.printAll(news); err != nil {
			return err
		}
	}
}

// list returns the last commands, the oldest first, and the last end from before all of it.
func (h *historyPrinter) list(ctx context.Context, c *client.Client) (list []protocol.HistoryCommand, lastEnd int64, err error) {
	page := h.params
	for first := true; ; first = false {
		if h.most > 0 {
			limit := uint64(h.most - len(list))
			page.Limit = &limit
		}
		r, err := c.History(ctx, page)
		if err != nil {
			return nil, 0, err
		}
		if first {
			lastEnd = r.LastEnd
		}
		list = append(list, r.Commands...)
		if !r.More || len(r.Commands) == 0 || h.most > 0 && len(list) >= h.most {
			slices.Reverse(list)
			return list, lastEnd, nil
		}
		page.Before = &list[len(list)-1].Number
	}
}

// writeCommand writes a command as one line of JSON, as history --json and the audit log have it. Its
// directory is a path.
func writeCommand(w io.Writer, c protocol.HistoryCommand) error {
	c.Cwd = cwdPath(c.Cwd)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(&c)
}

// cwdPath is the path of a directory that a client gave as a file URI, or as a path.
func cwdPath(cwd string) string {
	if path, err := fileuri.Path(cwd); err == nil {
		return path
	}
	return cwd
}

func (h *historyPrinter) printAll(list []protocol.HistoryCommand) error {
	if h.asJSON {
		for i := range list {
			if err := writeCommand(h.out, list[i]); err != nil {
				return err
			}
		}
		return nil
	}
	var rows [][]string
	if h.columns == nil {
		h.columns = columns{0, 0, len("999ms"), len("running"), len("1000000"), 0, 0} // later ones may be wider than the first
		rows = append(rows, []string{"NUMBER", "STARTED", "TOOK", "EXIT", "BYTES", "CLIENT", "COMMAND"})
	}
	for i := range list {
		rows = append(rows, historyRow(&list[i]))
	}
	return h.columns.print(h.out, rows)
}

// historyRow is a command in a table.
func historyRow(c *protocol.HistoryCommand) []string {
	took, bytes, exit := "-", "-", historyExit(c)
	if c.EndedAtMs != nil {
		bytes = strconv.FormatInt(c.Bytes, 10)
	}
	if c.EndedAtMs != nil && exit != exitLost { // of those it is the time at which that was noticed
		took = tookTime(time.Duration(*c.EndedAtMs-c.StartedAtMs) * time.Millisecond)
	}
	started := time.UnixMilli(c.StartedAtMs).Format(time.DateTime)
	return []string{strconv.FormatInt(c.Number, 10), started, took, exit, bytes, oneLine(c.Client), historyLine(c)}
}

// columns are the widths of the columns of a table that is printed bit by bit: they grow,
// and never shrink.
type columns []int

// print prints rows, with the cells of each made safe.
func (c columns) print(w io.Writer, rows [][]string) error {
	for _, cells := range rows {
		for i := range cells {
			cells[i] = safe(cells[i])
			c[i] = max(c[i], utf8.RuneCountInString(cells[i]))
		}
	}
	var text bytes.Buffer
	for _, cells := range rows {
		for i, cell := range cells[:len(cells)-1] {
			text.WriteString(cell)
			text.WriteString(strings.Repeat(" ", c[i]+2-utf8.RuneCountInString(cell)))
		}
		text.WriteString(cells[len(cells)-1])
		text.WriteByte('\n')
	}
	_, err := w.Write(text.Bytes())
	return err
}

// tookTime is how long a command took, to two digits or so. The clock may have gone back
// meanwhile.
func tookTime(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return d.String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return age(d)
}

// exitLost stands for the end of a command that nobody saw: its server was killed.
const exitLost = "lost"

// historyExit is how a command has ended, in a word.
func historyExit(c *protocol.HistoryCommand) string {
	switch {
	case c.EndedAtMs == nil:
		return "running"
	case c.TimedOut:
		return "timeout"
	case c.Limit != "":
		return c.Limit
	case c.Signal != "":
		return c.Signal
	case c.ExitCode == nil, *c.ExitCode < 0:
		return exitLost
	}
	return strconv.Itoa(*c.ExitCode)
}

func historyLine(c *protocol.HistoryCommand) string {
	if c.Durable && len(c.Argv) == 3 {
		return oneLine(c.Argv[2])
	}
	return commandLine(c.Argv)
}

// commandNumber is the number that an ID is of a command in the history; nil if it is none.
func commandNumber(id string) *int64 {
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil || number <= 0 || strconv.FormatInt(number, 10) != id {
		return nil
	}
	return &number
}

// noCommand says that the history has no command of a number or ID.
func noCommand(id string) error {
	return withHint(fmt.Errorf("there is no command %s in the history", id), "'wsd history' lists numbers, and 'wsd ps --all' IDs")
}

// findCommand finds the newest command of the history that fits. It is nil if there is none.
func findCommand(ctx context.Context, c *client.Client, params protocol.HistoryParams) (*protocol.HistoryCommand, error) {
	params.Limit = new(uint64(1))
	r, err := c.History(ctx, params)
	if err != nil || len(r.Commands) == 0 {
		return nil, err
	}
	return &r.Commands[0], nil
}
