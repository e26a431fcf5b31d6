package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/changes"
)

// exitConflicts is the status of wsd sync when --on-conflict=fail found conflicts.
const exitConflicts = 3

// exitRestless is the status of wsd sync when a side did not stop changing.
const exitRestless = 4

// syncFlags are those of sync and of exec --sync.
type syncFlags struct {
	connect    *connectFlags
	store      string
	remotePath string
	rules      ruleFlags
	ruleTexts  []string
	onConflict string
	allow      allowFlags
	lost       lostFlags
	garbage    garbageFlags
	merge      bool
	mirror     bool
	safe       bool
	from       string
	create     bool
	allowHome  bool
	maxDelete  deleteLimit

	policy mirror.Policy
	// repeated are the words of the flags that a printed command has as well.
	repeated []string
	// rulesOf are those of them that say what is synchronised and how, each as a shell has it.
	rulesOf []string
}

func (f *syncFlags) add(flags *pflag.FlagSet) {
	f.rules.add(flags)
	flags.StringVar(&f.onConflict, "on-conflict", "both", "what becomes of a path that changed on both sides: `MODE` both,\ntheirs, ours, hold or fail")
	textFlag(flags, &f.store, "state", "keep what is known of both sides in `FILE` (default: one for each\ndirectory and server in $XDG_STATE_HOME/wsd/sync)")
	flags.BoolVar(&f.merge, "merge", false, "at the first time, bring together what both sides have")
	flags.StringVar(&f.from, "from", "", "at the first time, `SIDE` here makes the server what is here, there\nmakes LOCAL what the server has")
	flags.BoolVar(&f.mirror, "mirror", false, "one way: make the server what is here each time; what has changed\nthere is undone, and kept here")
	flags.BoolVar(&f.safe, "one-way-safe", false, "one way: send what has changed here; what has changed at the server\nis a conflict that is held, and is not overwritten")
	flags.BoolVar(&f.create, "create", false, "make LOCAL if it does not exist")
	flags.BoolVar(&f.allowHome, "allow-home", false, "let LOCAL be or hold your home directory, or be /")
	flags.Var(&f.maxDelete, "max-delete", "stop before more than `LIMIT` files are removed at a side: a number, or\na share such as 10% (default half, where a side has more than 50)")
	f.lost.add(flags)
	f.garbage.add(flags)
	f.allow.add(flags)
	flags.StringVar(&f.remotePath, "remote-path", "", "synchronise with the directory `PATH` of the server's tree: the\nworkspace, or one in it (default: where the server says that the\nworkspace is, else /workspace)")
}

// check finds what the flags themselves got wrong.
func (f *syncFlags) check(cmd *cobra.Command) (err error) {
	if f.policy, err = mirror.ParsePolicy(f.onConflict); err != nil {
		return usagef("write --on-conflict both, theirs, ours, hold or fail", "invalid value for --on-conflict: %w", err)
	}
	switch {
	case f.from != "" && f.from != fromHere && f.from != fromThere:
		return usagef("write --from here or --from there", "invalid value %q for --from", f.from)
	case f.mirror && f.safe:
		return usagef("leave one of them out", "--mirror and --one-way-safe exclude each other")
	case (f.mirror || f.safe) && cmd.Flags().Changed("on-conflict"):
		return usagef("leave one of them out", "--on-conflict is for both ways, and --mirror and --one-way-safe go one way")
	case (f.mirror || f.safe) && f.from == fromThere:
		return usagef("write --from here, or synchronise both ways first", "nothing comes from there one way")
	case f.mirror && f.merge:
		return usagef("--from here makes the server what is here the first time too", "--mirror merges nothing")
	case f.from != "" && f.merge:
		return usagef("leave one of them out", "--merge and --from exclude each other")
	}
	if err := errors.Join(f.lost.check(), f.garbage.check()); err != nil {
		return err
	}
	if f.ruleTexts, err = f.rules.texts(); err != nil {
		return err
	}
	if cmd.Flags().Changed("remote-path") {
		if f.remotePath == "" || f.remotePath[0] != '/' || slices.ContainsFunc(strings.Split(f.remotePath, "/"), func(s string) bool { return s == "." || s == ".." }) {
			return usagef(helpHint(cmd), "invalid value %q for --remote-path: want an absolute path without . and ..", f.remotePath)
		}
		f.remotePath = path.Clean(f.remotePath)
	}
	f.repeat(cmd.Flags())
	return nil
}

// explainLocal says what to do about a store that cannot be opened.
func explainLocal(ctx context.Context, err error) error {
	return explainInUse(ctx, err, "another 'wsd sync' of this directory runs; wait for its end, or end it")
}

// explain says what to do about a server that is not pulled from, or pushed to.
func (o *syncOutput) explain(err error) error {
	if root, ok := errors.AsType[*mirror.RootError](err); ok {
		return o.refuseRoot(root)
	}
	if errors.Is(err, mirror.ErrWithheld) {
		return withHint(err, "--"+flagAllowCode+" and --"+flagAllowSetuid+" let them come over, --ignore leaves them alone")
	}
	if errors.Is(err, mirror.ErrHeld) {
		return withHint(err, "--on-conflict both, theirs or ours decides about all of them; to list them, with the command for each: "+o.job.conflictsCommand())
	}
	if text := toldByServer(err); text != "" && changes.Code(err) == changes.CodeNoAccess {
		return withHint(fmt.Errorf("at the server: %s", safe(text)), "the user whose 'wsd serve' it is may not read or search that directory: see its owner and its mode there; nothing is removed for that")
	}
	return explainRules(err)
}

// toldByServer is the server's text of an error that the server has told, without the name of the step that it
// was at, and "" for other errors.
func toldByServer(err error) string {
	text := ""
	if e, ok := errors.AsType[*client.Error](err); ok {
		text = e.Message
	} else if e, ok := errors.AsType[*changes.Error](err); ok {
		text = e.Error()
	}
	return strings.TrimPrefix(text, "settle: ")
}

// firstSet is the first of some texts that is not empty.
func firstSet(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// serverURL is what the flag or the environment names, "" for none.
func (f *connectFlags) serverURL() string { return firstSet(f.url, os.Getenv(envURL)) }
