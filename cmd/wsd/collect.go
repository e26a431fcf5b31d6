package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/sqlite"
	"github.com/wsd-dev/wsd/server/workspace"
)

func newGCCmd(a *app) *cobra.Command {
	var o storeFlags
	var connect connectFlags
	var asJSON, now bool
	cmd := &cobra.Command{
		Use:   "gc [flags] [LOCAL]",
		Short: "Collect the garbage of a workspace's store",
		Long: `Deletes content that no file of the workspace has any more, and gives the room
back to the file system. Content stays for an hour after a client last sent it or
asked for it; a first collection then marks it, and one that comes an hour later
deletes it, sooner when there is much ('wsd serve --help' has the bounds). A
server does so by itself. --now deletes all of it but what a client has sent, or
was told is there, within the last 15 minutes: it may be about to use that.

A store that a server of yours has open is collected by that server. Content
that files of the workspace have need not be in the store: it is looked for there
if the directory is known by --workspace.

With LOCAL it is about what 'wsd sync' keeps of that directory, for each server that
it was synchronised with: versions that were lost stay ('wsd sync lost'), other content
that no file has any more goes. A 'wsd sync --watch' does so by itself, and
for this command when it is asked.

Exit status: 0; 1 failure; 2 usage.`,
		Example: "  wsd gc                      # of the workspace that your server serves\n  wsd gc --now --workspace .\n  wsd gc --now ~/project      # of what 'wsd sync' keeps of it",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usagef("write 'wsd gc LOCAL'", "gc wants one directory, got %d arguments", len(args))
			case connect.url != "" && (o.dir != "" || o.store != ""):
				return usagef("leave one of them out", "--connect excludes --workspace and --store: a server collects the store that it has")
			case len(args) == 1 && (o.dir != "" || o.store != "" || connect.url != ""):
				return usagef("leave one of them out", "LOCAL excludes --workspace, --store and --connect")
			}
			return o.checkMount()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := a.collected(cmd, &o, &connect, args, now)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, done)
			}
			return say(a.stdout, "deleted %d chunks with %d bytes, marked %d", done.Chunks, done.Bytes, done.Marked)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.addFlags(f, "collect the garbage of")
	f.BoolVar(&now, "now", false, "delete garbage of any age")
	f.BoolVar(&asJSON, "json", false, "print what was done as JSON")
	connect.add(f)
	return cmd
}

// collected collects what is kept of a directory, or at the server that is named or has the store
// open, or here.
func (a *app) collected(cmd *cobra.Command, o *storeFlags, connect *connectFlags, args []string, now bool) (done protocol.CollectResult, err error) {
	ctx := cmd.Context()
	if len(args) == 1 {
		states, err := statesOf(args[0])
		if errors.Is(err, errNoState) {
			err = withHint(err, "--store FILE names the state, or the store of a server")
		}
		for _, file := range states {
			if err == nil {
				var of protocol.CollectResult
				of, err = a.collectStore(ctx, workspace.Config{Store: file}, connect, now)
				done.Chunks, done.Bytes, done.Marked = done.Chunks+of.Chunks, done.Bytes+of.Bytes, done.Marked+of.Marked
			}
		}
		return done, err
	}
	if connect.url != "" || o.dir == "" && o.store == "" {
		target, err := connect.syncTarget()
		if err != nil {
			return done, err
		}
		c, err := target.dialClient(ctx, a, connect, client.Options{})
		if err != nil {
			return done, err
		}
		return askCollect(ctx, c, now)
	}
	return a.collectStore(ctx, o.config(cmd.Flags(), nil), connect, now)
}

// collectStore collects a store, through the server that has it open.
func (a *app) collectStore(ctx context.Context, cfg workspace.Config, connect *connectFlags, now bool) (done protocol.CollectResult, err error) {
	w, err := workspace.OpenStore(ctx, cfg)
	if inUse, ok := errors.AsType[*sqlite.InUseError](err); ok {
		s := serverOf(inUse.Path)
		if s == nil {
			err = withHint(err, "a 'wsd sync' collects at its end: wait for that; the server of another user is named by --connect URL")
			answer, err := a.askWatch(ctx, err, &doorRequest{Do: doorCollect, Now: now})
			if err != nil {
				return done, err
			}
			return answer.Collected, nil
		}
		c, err := connect.dialRunning(ctx, s, client.Options{ConnectTimeout: connect.timeout})
		if err != nil {
			return done, err
		}
		return askCollect(ctx, c, now)
	}
	if err != nil {
		return done, explainStore(err)
	}
	if w.Dir != "" {
		if err := w.OpenDirectory(ctx, cfg); err != nil {
			_ = say(a.stderr, "wsd gc: what the workspace's files have as well stays: %v", err)
		}
	}
	got, err := w.Collect(ctx, now)
	return protocol.CollectResult{Chunks: got.Chunks, Bytes: got.Bytes, Marked: got.Marked}, errors.Join(err, w.Close())
}

// serverOf is this user's server that has a store open; nil if none is known.
func serverOf(store string) *runningServer {
	dir, err := userRuntimeDir()
	if err != nil {
		return nil
	}
	servers, err := dir.servers()
	if err != nil {
		return nil
	}
	for i := range servers {
		if servers[i].Store == store {
			return &servers[i]
		}
	}
	return nil
}

// askCollect has a server collect, and closes the connection.
func askCollect(ctx context.Context, c *client.Client, now bool) (done protocol.CollectResult, err error) {
	defer c.Close()
	ok, err := c.Supports(ctx, protocol.CapWorkspaceCollect)
	if err == nil && !ok {
		err = withHint(errNoWorkspace, workspaceHint+"; --workspace and --store name a store that no server has open")
	}
	if err == nil {
		var params any // an older server takes none
		if now {
			params = &protocol.CollectParams{Now: true}
		}
		err = c.Call(ctx, protocol.MethodWorkspaceCollect, params, &done)
	}
	return done, err
}
