package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newManCmd() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "man --dir DIR",
		Short: "Write the manual pages",
		Long: `Writes a manual page for wsd and one for each of its commands into a directory,
which is made if need be.

Exit status: 0, or 1 when a page cannot be written.`,
		Example: "  wsd man --dir ~/.local/share/man/man1",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return usagef("for instance 'wsd man --dir ~/.local/share/man/man1'", "no directory to write to")
			}
			return writeManPages(cmd.Root(), dir)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the `DIR`ectory to write to")
	return cmd
}

// writeManPages writes the pages, dated as the build so that they can be reproduced.
func writeManPages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	info := readBuildInfo()
	header := &doc.GenManHeader{Section: "1", Source: "wsd " + info.Version, Manual: "wsd"}
	if built, err := time.Parse(time.RFC3339, info.Date); err == nil {
		header.Date = &built
	} else {
		header.Date = &time.Time{}
	}
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("write the pages: %w", err)
	}
	return nil
}
