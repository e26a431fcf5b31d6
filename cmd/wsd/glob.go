package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
)

// exitNothing is the status of searches that found nothing, as grep has it, and
// exitTrouble that of those that failed.
const (
	exitNothing = 1
	exitTrouble = 2
)

// searchError gives the failures of searches grep's exit status.
func searchError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*exitError); ok { //nolint:errorlint // only one of ours
		return err
	}
	return &exitError{exitTrouble, err}
}

func newGlobCmd(a *app) *cobra.Command {
	var connect connectFlags
	var cwd string
	var opts client.GlobOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "glob [flags] PATTERN...",
		Short: "Find files of the server by pattern",
		Long: `Prints the paths at the server that match a pattern, sorted. Patterns are relative
to --cwd: * ? [a-z] and {a,b} within a name, ** for any number of directories.
Quote them, or your shell expands them here.

` + connectHelp + `

With --json each path is an object with the members path and kind ("file",
"directory", "symlink", "other").

Exit status: 0 when something matched, 1 when nothing did, 2 on failure.`,
		Example: "  wsd glob '**/*.go'\n  wsd glob --gitignore --exclude vendor '**/*_test.go'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("write wsd glob '**/*.go'", "no pattern")
			}
			for _, pattern := range args {
				if rest, ok := strings.CutPrefix(pattern, "/"); ok {
					return usagef(fmt.Sprintf("write wsd glob --cwd / '%s'", rest), "the pattern %s is not relative to --cwd", pattern)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return searchError(connect.withClient(cmd.Context(), a, func(ctx context.Context, c *client.Client) error {
				return globAll(ctx, a, c, cwd, args, &opts, asJSON)
			}))
		},
	}
	cmd.Flags().StringVarP(&cwd, "cwd", "C", ".", "look below the directory `PATH` of the server")
	cmd.Flags().StringArrayVar(&opts.Exclude, "exclude", nil, "leave out what matches `PATTERN`; may be given again")
	cmd.Flags().BoolVar(&opts.SkipHidden, "no-hidden", false, "leave out names that begin with a dot")
	cmd.Flags().BoolVar(&opts.Gitignore, "gitignore", false, "leave out what .gitignore files name")
	cmd.Flags().IntVar(&opts.MaxResults, "max", 0, "stop after `N` paths (default 50,000, which is the most)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	connect.add(cmd.Flags())
	return cmd
}

// globEntry is a path in the output of --json.
type globEntry struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

func globAll(ctx context.Context, a *app, c *client.Client, root string, patterns []string, opts *client.GlobOptions, asJSON bool) error {
	abs, err := c.Abs(ctx, root)
	if err != nil {
		return err
	}
	entries := []globEntry{}
	for _, pattern := range patterns {
		found, err := c.Glob(ctx, root, pattern, opts)
		if err != nil {
			return err
		}
		for _, f := range found.Found {
			entries = append(entries, globEntry{relativeTo(root, abs, f.Path), f.Kind})
		}
		if found.Truncated {
			_ = say(a.stderr, "wsd glob: there is more that matches %s", pattern)
		}
	}
	if asJSON {
		err = writeJSON(a.stdout, entries)
	}
	for _, entry := range entries {
		if !asJSON && err == nil {
			_, err = fmt.Fprintln(a.stdout, safe(entry.Path))
		}
	}
	if err == nil && len(entries) == 0 {
		return &exitError{exitNothing, nil}
	}
	return err
}
