package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/server/workspace"
)

// fsckFinding is a line of wsd fsck --json.
type fsckFinding struct {
	Check string `json:"check"`
	What  string `json:"what"`
}

func newFsckCmd(a *app) *cobra.Command {
	var o storeFlags
	var asJSON bool
	var log logOptions
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Check a workspace and its store",
		Long: `Reads all of a workspace's store and all of its directory, and prints what is
wrong: rows that contradict each other, content that is not what it was, and where
the directory is not what the store says. Changes that nobody has seen yet are
taken up first, as by a server. A store that is in use is not checked: stop its
server first.

With --store alone the store is checked, and no directory.

Exit status: 0 all is well; 1 something is wrong, or could not be checked; 2 usage.`,
		Example: "  wsd fsck --workspace .\n  wsd fsck --store project.db --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.dir == "" && o.store == "" {
				return usagef("write --workspace DIR, or --store FILE", "nothing is named that could be checked")
			}
			if err := o.checkMount(); err != nil {
				return err
			}
			if err := log.check(helpHint(cmd)); err != nil {
				return err
			}
			return a.fsck(cmd, &o, &log, asJSON)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.addFlags(f, "check")
	f.BoolVar(&asJSON, "json", false, "print a JSON object a line for each finding")
	log.addFlags(f, "warn")
	return cmd
}

func (a *app) fsck(cmd *cobra.Command, o *storeFlags, log *logOptions, asJSON bool) error {
	findings := 0
	var failed error
	err := workspace.Check(cmd.Context(), o.config(cmd.Flags(), log.logger(a.stderr)), func(f workspace.Finding) {
		findings++
		var err error
		if asJSON {
			err = json.NewEncoder(a.stdout).Encode(fsckFinding{f.Check, f.What})
		} else {
			err = say(a.stdout, "%s: %s", f.Check, f.What)
		}
		if failed == nil {
			failed = err
		}
	})
	switch {
	case err != nil:
		return explainStore(err)
	case failed != nil:
		return failed
	case findings > 0:
		return withHint(fmt.Errorf("%d findings", findings), "keep a copy of the store before anything else; docs/storage.md says what can be done")
	default:
		return nil
	}
}
