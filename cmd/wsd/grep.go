package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
)

type grepFlags struct {
	connect       connectFlags
	opts          client.GrepOptions
	names, asJSON bool
	noName        bool
}

func newGrepCmd(a *app) *cobra.Command {
	var flags grepFlags
	cmd := &cobra.Command{
		Use:   "grep [flags] PATTERN [PATH]...",
		Short: "Search files of the server for lines",
		Long: `Prints the lines of files at the server that match an RE2 pattern, as
PATH:LINE:TEXT, sorted. Directories are searched with all below them, by default
the server's own. Binary files, files over 64 MiB, hidden ones and those that
.gitignore files name are passed over.

` + connectHelp + `

With --json each match is an object with the members path, line, column and text.

Exit status: 0 when something matched, 1 when nothing did, 2 on failure.`,
		Example: "  wsd grep 'func main' --include '*.go'\n  wsd grep -i -l todo src docs",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("write wsd grep 'func main' src", "no pattern")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, paths := args[0], args[1:]
			if len(paths) == 0 {
				paths = []string{"."}
			}
			return searchError(flags.connect.withClient(cmd.Context(), a, func(ctx context.Context, c *client.Client) error {
				return flags.run(ctx, a, c, pattern, paths)
			}))
		},
	}
	cmd.Flags().BoolVarP(&flags.opts.Fixed, "fixed-strings", "F", false, "take the pattern as plain text")
	cmd.Flags().BoolVarP(&flags.opts.IgnoreCase, "ignore-case", "i", false, "match upper and lower case alike")
	cmd.Flags().StringArrayVar(&flags.opts.Include, "include", nil, "search only files that match `GLOB`; may be given again")
	cmd.Flags().StringArrayVar(&flags.opts.Exclude, "exclude", nil, "pass over what matches `GLOB`; may be given again")
	cmd.Flags().BoolVar(&flags.opts.Hidden, "hidden", false, "search what begins with a dot too")
	cmd.Flags().BoolVar(&flags.opts.NoIgnore, "no-ignore", false, "search what .gitignore files name too")
	cmd.Flags().IntVarP(&flags.opts.MaxMatches, "max-count", "m", 50_000, "stop after `N` lines, 50,000 at most")
	cmd.Flags().BoolVarP(&flags.names, "files-with-matches", "l", false, "print only the paths of files with a match")
	cmd.Flags().BoolVar(&flags.noName, "no-filename", false, "print only the lines")
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print a JSON array")
	flags.connect.add(cmd.Flags())
	return cmd
}

// grepEntry is a match in the output of --json.
type grepEntry struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`   // from 1
	Column int    `json:"column"` // from 1, in bytes
	Text   string `json:"text"`
}

func (f *grepFlags) run(ctx context.Context, a *app, c *client.Client, pattern string, paths []string) error {
	entries := []grepEntry{}
	failed := false
	for _, root := range paths {
		abs, err := c.Abs(ctx, root)
		if err != nil {
			return err
		}
		found, err := c.Grep(ctx, root, pattern, &f.opts)
		if err != nil {
			return err
		}
		for _, m := range found.Matches {
			entries = append(entries, grepEntry{relativeTo(root, abs, m.Path), m.Line, m.Column, m.Text})
		}
		for _, err := range found.Errors {
			failed = true
			_ = say(a.stderr, "wsd grep: %v", err)
		}
		if found.Truncated {
			_ = say(a.stderr, "wsd grep: there are more matches in %s; -m bounds them", root)
		}
	}
	if err := f.print(a, entries); err != nil {
		return err
	}
	switch {
	case failed:
		return &exitError{exitTrouble, nil}
	case len(entries) == 0:
		return &exitError{exitNothing, nil}
	}
	return nil
}

func (f *grepFlags) print(a *app, entries []grepEntry) error {
	if f.asJSON {
		return writeJSON(a.stdout, entries)
	}
	tty := isTerminal(a.stdout)
	last := ""
	for _, m := range entries {
		var err error
		name, text := safe(m.Path), safeText(m.Text, tty)
		switch {
		case !f.names && !f.noName:
			_, err = fmt.Fprintf(a.stdout, "%s:%d:%s\n", name, m.Line, text)
		case !f.names:
			_, err = fmt.Fprintln(a.stdout, text)
		case m.Path != last:
			_, err = fmt.Fprintln(a.stdout, name)
		}
		if err != nil {
			return err
		}
		last = m.Path
	}
	return nil
}
