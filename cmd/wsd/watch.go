package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
)

type watchFlags struct {
	connect      connectFlags
	opts         client.WatchOptions
	once, asJSON bool
}

func newWatchCmd(a *app) *cobra.Command {
	var flags watchFlags
	cmd := &cobra.Command{
		Use:   "watch [flags] [PATH]",
		Short: "Report changes of files of the server",
		Long: `Prints a line for each file or directory at the server that is created, modified
or removed below PATH, by default the server's directory: the kind of change, a
blank, and the path. The line "overflow" means that changes were missed: look at
the tree again. Once it watches, it says so on standard error.

` + connectHelp + `

With --json each line is an object with the members kind ("created", "modified",
"removed", "overflow") and path.

Exit status: 0 after the first report with --once; 1 on failure.`,
		Example: "  wsd watch src\n  wsd watch --exclude '**/*.o' --json\n  wsd watch --once src && wsd exec -- make",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("watch their common directory, or run one 'wsd watch' for each", "more than one path to watch")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := "."
			if len(args) > 0 {
				root = args[0]
			}
			return flags.connect.withClient(cmd.Context(), a, func(ctx context.Context, c *client.Client) error {
				return flags.run(ctx, a, c, root)
			})
		},
	}
	cmd.Flags().BoolVar(&flags.opts.Shallow, "shallow", false, "do not watch what is in directories below PATH")
	cmd.Flags().StringArrayVar(&flags.opts.Exclude, "exclude", nil, "do not report what matches `GLOB`; may be given again")
	cmd.Flags().BoolVar(&flags.once, "once", false, "end after the first report")
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON object a line")
	flags.connect.add(cmd.Flags())
	return cmd
}

// watchEntry is a line of --json.
type watchEntry struct {
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"`
}

func (f *watchFlags) run(ctx context.Context, a *app, c *client.Client, root string) error {
	abs, err := c.Abs(ctx, root)
	if err != nil {
		return err
	}
	w, err := c.Watch(ctx, root, &f.opts)
	if err != nil {
		return err
	}
	defer w.Close()
	_ = say(a.stderr, "wsd: watching %s", abs)
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			return err
		}
		var entries []watchEntry
		if changes.Overflow {
			entries = append(entries, watchEntry{Kind: "overflow"})
		}
		for _, change := range changes.Changes {
			entries = append(entries, watchEntry{change.Kind, relativeTo(root, abs, change.Path)})
		}
		for _, entry := range entries {
			if err := f.print(a, enc, entry); err != nil {
				return err
			}
		}
		if f.once {
			return nil
		}
	}
}

func (f *watchFlags) print(a *app, enc *json.Encoder, entry watchEntry) error {
	switch {
	case f.asJSON:
		return enc.Encode(entry)
	case entry.Path == "":
		return say(a.stdout, "%s", entry.Kind)
	}
	return say(a.stdout, "%s %s", safe(entry.Kind), safe(entry.Path))
}
