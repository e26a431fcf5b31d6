package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/client/computer"
	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/disk"
)

// How a synchronisation goes on when it cannot.
const (
	// A lost connection is tried again after syncPause, doubled each time, at most after
	// maxSyncPause; without --watch syncAttempts times.
	syncPause    = 250 * time.Millisecond
	maxSyncPause = 30 * time.Second
	syncAttempts = 5
	// removedTogether is how long a watch counts what it removes as one removal.
	removedTogether = time.Minute
)

// syncJob is a run of wsd sync.
type syncJob struct {
	app     *app
	flags   syncFlags
	watch   bool
	dryRun  bool
	quiet   bool
	verbose bool
	sends   bool // what goes to the server is told, too
	asJSON  bool
	// resolves: it decides about a path that is held in conflict.
	resolves bool
	// keepRules: without flags that say what is ignored, it is what was the last time.
	keepRules bool

	target *syncTarget
	local  *syncLocal
	out    *syncOutput

	met bool // both sides have been in step, or may be brought together
	// makes is the server if its directory of --remote-path was missing when the run began, else nil.
	makes *syncRemote
	// missed: the line about the missing directory has been printed.
	missed bool
	// first is how they are brought together, until they are: a value of --from, firstMerge, or
	// "". leaves is what goes here with fromThere, in a dry run.
	first  string
	leaves *mirror.Contact
	blank  bool // the server has nothing that it was not sent from here
	// removals are those of a watch that is in step.
	removals *mirror.Removals
	// retries is what is tried again over a connection, nil where there is one call.
	retries *mirror.Retries
	watched syncWatch
	// asks are what other commands ask a watch for; nil where they cannot.
	asks chan *syncAsk
}

func newSyncCmd(a *app) *cobra.Command {
	var connect connectFlags
	job := &syncJob{app: a, flags: syncFlags{connect: &connect}}
	cmd := &cobra.Command{
		Use:   "sync [flags] LOCAL [URL]",
		Short: "Keep a directory in step with the server's workspace",
		Long: `Brings what changed in the server's workspace since the last time to the directory
LOCAL, and what changed in LOCAL to the server, until both are the same. Only what
changed moves, content that the other side has by its hash does not. It may be
ended, cut or killed at any moment: the next one goes on where it was.

The server is one with 'wsd serve --workspace': at URL, which is ws://HOST:PORT,
wss://HOST:PORT, unix:///PATH or relay://HOST/ENVIRONMENT; or http://HOST:PORT or
https://HOST:PORT for any server of the clients of Cloudflare's computer. Without
URL it is the one of --connect or $WSD_URL, else the one with a workspace that you
started last.

The first time, LOCAL and the server's workspace are not mixed unasked: if both have
files, nothing is changed, and one says --merge to bring both together, --from here to
make the server what LOCAL is, or --from there to make LOCAL what the server has; what
goes is kept here ('wsd sync lost'). A LOCAL that does not exist wants --create; your
home directory, one that holds it, and / want --allow-home.

It goes both ways. With --mirror the server becomes what LOCAL is each time, and what
has changed there is undone and kept here; with --one-way-safe what has changed there is
a conflict that is held ('wsd sync conflicts'), and is not overwritten.

If more than half of the files of a side that has more than 50 would be removed, or more
than --max-delete says, nothing is: it ends with status 3. So it does if the directory
of --remote-path has been removed at the server, or is a file or a link there.

A path that has changed on both sides since they last agreed is a conflict. Each
is reported with sizes and times of both versions, and --on-conflict decides: both, the
default, takes the server's version and keeps the one here beside it as
NAME.conflict-HASH, theirs takes the server's, ours keeps the one here, hold leaves
both as they are ('wsd sync conflicts', 'wsd sync resolve'), fail changes nothing and
ends with status 3.

` + allowHelp + ` What is withheld stays at the
server as it is there, and comes over with the flag later.

What a line of the file ` + ignoreFile + ` in LOCAL matches is left alone on both sides, as git
does with a .gitignore: neither sent, nor fetched, nor removed. --ignore, --include and
--ignore-file add patterns, in their order, and --gitignore those of the .gitignore files
in LOCAL. A directory that is left alone is so with all that is in it.

A version of a file that something else took the place of before it was sent, or that
lost a conflict, is kept: 'wsd sync lost' lists such versions and 'wsd sync restore'
brings one back. They, and content that no file has any more, are kept beside the state
within the bounds of --` + flagLostAge + `, --` + flagLostBytes + `, --` + flagGarbageBytes + ` and
--` + flagGarbageShare + `; 'wsd gc --now LOCAL' deletes the latter at once. A directory
that is called as one of the commands below is ./lost here.

With --watch it goes on until it is ended, and a lost connection is made again. It
waits for a server at URL that has not been started yet.
With --dry-run nothing changes: it prints what would move, '<' to LOCAL, '>' to the
server, and names the conflicts with what --on-conflict would make of them.

What could not be written or read, on either side, is named with the reason by each
run until it can be; all else goes on. So are pipes, sockets and devices, which are left
out, and names that are not UTF-8 if the server does not know such: it is spoken to over
http:// or an older wsd. -v names up to a hundred for each reason. Paths that a pattern
matches are left alone and not named, and do not change the exit status.

With --json each line is an object: {"type":"change"} for what changed in LOCAL, with -v
{"type":"sent"} for what went to the server, {"type":"conflict"}, {"type":"withheld"},
{"type":"skipped"}, {"type":"kept"}, {"type":"made"} for a directory of --remote-path
that was not there and {"type":"missing"} for one that is not, {"type":"move"} of a --dry-run, at last {"type":"result"}.

Exit status: 0 both sides are the same but for what is withheld; 1 on failure; 2 for a
command line that wsd does not understand; 3 when nothing was changed, since a flag
must say that it is meant, or when there were conflicts and --on-conflict is fail; 4
when all has moved that there was at first, but a side goes on changing; 5 when
something could not be read or cannot be synchronised, which is named, and all else is
the same; 6 when some paths are held in conflict, and all else is as with 0 or 5. A
--watch that a signal has ended has the status of its last look: 0, 1, 5 or 6.`,
		Example: `  wsd sync ~/project ws://127.0.0.1:45678
  wsd sync --create ~/copy ws://127.0.0.1:45678
  wsd sync . --watch --on-conflict theirs --ignore node_modules
  wsd sync . --watch --lost-max-age 7d --garbage-max-bytes 256M
  wsd sync . --gitignore --ignore '*.log' --include /logs/keep.log
  wsd sync --dry-run . relay://relay.example.com/lab
  wsd sync site https://computer.example.com --token-file secret`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("write 'wsd sync LOCAL' or 'wsd sync LOCAL ws://HOST:PORT'", "no directory to synchronise")
			case len(args) > 2:
				return usagef("write 'wsd sync LOCAL URL'", "sync wants a directory and a server, got %d arguments", len(args))
			case strings.Contains(args[0], "://"):
				return usagef("write the directory first: wsd sync "+quoted(append(args[1:], ".")[0])+" "+quoted(args[0]), "%s is no directory", args[0])
			case job.watch && job.dryRun:
				return usagef("leave one of them out", "--watch and --dry-run exclude each other")
			}
			return job.flags.check(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := connect.take(args[1:]); err != nil {
				return err
			}
			job.sends = job.verbose
			return job.run(cmd.Context(), args[0])
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&job.watch, "watch", "w", false, "go on until ended")
	flags.BoolVarP(&job.dryRun, "dry-run", "n", false, "print what would move, and change nothing")
	flags.BoolVarP(&job.quiet, "quiet", "q", false, "show no progress and no result")
	flags.BoolVarP(&job.verbose, "verbose", "v", false, "print what changes in LOCAL, and what is sent")
	flags.BoolVar(&job.asJSON, "json", false, "print one JSON object a line")
	job.flags.add(flags)
	connect.add(flags)
	cmd.AddCommand(newSyncConflictsCmd(a), newSyncResolveCmd(a), newSyncLostCmd(a), newSyncRestoreCmd(a))
	return cmd
}

func (j *syncJob) run(ctx context.Context, dir string) (err error) {
	growth := endingGrowth
	if j.watch {
		growth = indexingGrowth
	}
	tuneGC(os.Getenv, growth) // a connection over a relay replaces it
	if j.target, err = j.flags.connect.syncTarget(); err != nil {
		return err
	}
	if j.watch {
		j.app.outliveReaders()
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
	}
	j.out = newSyncOutput(j)
	defer j.out.close()
	remote, err := j.reach(ctx, dir)
	if j.watch && ctx.Err() != nil {
		return j.watched.ended()
	}
	if err != nil {
		return err // a wrong URL is not to make a directory
	}
	if j.local, err = openSyncLocal(ctx, dir, j.target, remote, &j.flags, j.dryRun); err != nil {
		return errors.Join(err, remote.close())
	}
	defer func() { err = errors.Join(err, j.local.close()) }()
	j.local.forgot = j.out.forgot
	j.tellUnread()
	j.tellOthers()
	if !j.quiet {
		j.tellServer()
		j.tellNested()
	}
	if j.watch {
		j.asks = make(chan *syncAsk)
		if door, closed := openDoor(j.local.db.Path(), j.answer); closed == nil {
			defer func() { err = errors.Join(err, door.Close()) }()
		} else { // they say that the state is in use
			j.asks = nil
		}
	}
	if j.dryRun {
		err = j.meetAt(ctx, remote)
		if err == nil {
			err = j.out.plan(ctx, j.mirror(remote))
		}
		if err == nil {
			err = j.local.refusal
		}
		err = errors.Join(err, remote.close())
	} else {
		err = j.keepOn(ctx, remote)
	}
	return j.explain(ctx, err)
}

// reach connects. A watch of LOCAL waits for a server that does not listen yet.
func (j *syncJob) reach(ctx context.Context, dir string) (*syncRemote, error) {
	for pause := syncPause; ; pause = min(2*pause, maxSyncPause) {
		remote, err := j.target.dial(ctx, j.app, &j.flags, j.options())
		if err == nil {
			j.watched.anew()
		}
		if err == nil || !j.watch || !notListening(err) {
			return remote, err
		}
		if err := j.flags.checkPlace(dir); err != nil {
			return nil, err
		}
		j.watched.away()
		j.out.trouble(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// notListening reports whether an error of connecting may go away once the server is started: nobody
// listens, the machine does not answer, or what stands before the server has none.
func notListening(err error) bool {
	for _, no := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EHOSTUNREACH, syscall.ENETUNREACH, context.DeadlineExceeded} {
		if errors.Is(err, no) {
			return true
		}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Timeout() || op.Net == "unix" && errors.Is(err, iofs.ErrNotExist)) {
		return true
	}
	if status, ok := errors.AsType[*client.RefusedError](err); ok {
		return status.Status >= 500
	}
	status, ok := errors.AsType[*computer.RefusedError](err)
	return ok && status.Status >= 500
}

// explain says what to do about an error of a synchronisation.
func (j *syncJob) explain(ctx context.Context, err error) error {
	if errors.Is(err, disk.ErrNoDirectory) {
		err = cmp.Or(j.local.checkSame(), err)
	}
	var conflicts *mirror.ConflictError
	var many *mirror.DeletesError
	if _, refuses := errors.AsType[*mirror.RootError](err); (refuses || isRefused(err)) && !j.met {
		j.local.forget()
	}
	switch {
	case errors.As(err, &many):
		return j.out.tooMany(many)
	case errors.As(err, &conflicts):
		return j.out.conflicts(conflicts, "nothing was changed")
	case j.watch && ctx.Err() != nil:
		return j.watched.ended()
	}
	return j.out.explain(err)
}

// mirror is the mirror over a connection.
func (j *syncJob) mirror(r *syncRemote) *mirror.Mirror { return mirror.New(j.config(r)) }

// config is that of the mirror.
func (j *syncJob) config(r *syncRemote) mirror.Config {
	cfg := mirror.Config{
		Local: j.local.disk, Remote: r.peer, LocalRoot: localMount, RemoteRoot: r.mount,
		Rules: j.flags.ruleTexts, RulesFile: ignoreFile, GitIgnore: j.flags.rules.git, OnConflict: j.flags.policy,
		Conflict: j.out.conflict, Progress: j.progress, Withheld: j.out.withheld, Stayed: j.out.stayed,
		Dir: j.local.dir, Room: j.local.room, AllowCode: j.flags.allow.code, AllowModes: j.flags.allow.setuid,
		Undo: j.first == fromHere || j.flags.mirror, Guard: j.flags.safe, First: j.first, Blank: j.blank,
		MayEmpty: j.flags.maxDelete.all(), Removals: j.removals, Retries: j.retries,
	}
	if j.keepRules && len(j.flags.rules.given) == 0 && !j.flags.rules.git {
		cfg.RulesFile, cfg.KeepRules = "", true
	}
	if j.flags.safe {
		cfg.OnConflict = mirror.Hold
	}
	if j.first == fromThere {
		cfg.OnConflict = mirror.Theirs
	}
	if j.flags.maxDelete.given || j.first != fromHere && j.first != fromThere { // else it was asked for
		cfg.MayDelete = j.flags.maxDelete.allows
	}
	if j.verbose || j.asJSON {
		cfg.OnChange = j.out.change
	}
	if j.sends {
		cfg.OnSent = j.out.sent
	}
	return cfg
}

// keepOn synchronises over one connection after the other.
func (j *syncJob) keepOn(ctx context.Context, remote *syncRemote) error {
	pause := syncPause
	for attempt := 1; ; attempt++ {
		err := j.over(ctx, remote, func() { attempt, pause = 0, syncPause })
		err = errors.Join(err, remote.close())
		for connected := true; ; connected = false {
			if err == nil || ctx.Err() != nil || !j.worthwhile(err, attempt, connected) {
				return err
			}
			j.watched.away()
			if !lostConnection(err) || !j.out.troubled() { // else options has reported it
				j.out.trouble(j.out.explain(err))
			}
			if !j.pause(ctx, pause) {
				return err
			}
			pause = min(2*pause, maxSyncPause)
			if remote, err = j.target.dial(ctx, j.app, &j.flags, j.options()); err == nil {
				if err = j.local.knows(ctx, remote, j.target); err == nil {
					j.watched.anew()
					break
				}
				err = errors.Join(err, remote.close())
			}
			attempt++
		}
	}
}

// worthwhile reports whether to try again after an error, which is one of a connection or
// of connecting again.
func (j *syncJob) worthwhile(err error, attempt int, connected bool) bool {
	if !j.watch && (attempt >= syncAttempts || connected && !lostConnection(err)) {
		return false
	}
	var conflict *mirror.ConflictError
	_, usage := errors.AsType[*usageError](err)
	status, isStatus := errors.AsType[*client.RefusedError](err)
	_, many := errors.AsType[*mirror.DeletesError](err)
	_, root := errors.AsType[*mirror.RootError](err)
	return !usage && !many && !root && !isRefused(err) && !errors.As(err, &conflict) && !errors.Is(err, disk.ErrNoDirectory) &&
		!errors.Is(err, errNoWorkspace) && !errors.Is(err, mirror.ErrWithheld) && !errors.Is(err, mirror.ErrHeld) && (!isStatus || status.Status >= 500)
}

// checkLocal fails if the directory is another one than was opened, or was emptied.
func (j *syncJob) checkLocal(ctx context.Context) error {
	if err := j.local.checkSame(); err != nil {
		return err
	}
	_, err := j.local.checkEmptied(ctx, j.local.disk.Tree(), &j.flags.maxDelete)
	if errors.Is(err, iofs.ErrNotExist) {
		err = nil // it has gone since: the look says so
	}
	return err
}

// over synchronises over a connection; well is called each time that it worked.
func (j *syncJob) over(ctx context.Context, remote *syncRemote, well func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := j.meetAt(ctx, remote); err != nil {
		return err
	}
	j.retries = &mirror.Retries{}
	m := j.mirror(remote)
	waiter := newSyncWaiter(j.local, func() {
		if err := j.local.sweep(ctx); err != nil && ctx.Err() == nil {
			j.out.trouble(fmt.Errorf("make the state smaller: %w", err))
		}
	}, j.checkLocal, j.asks, func(ctx context.Context, ask *syncAsk) {
		j.serve(ctx, remote, ask)
		m = j.mirror(remote) // what it knows of both sides may be old
		if ask.Do != doorConflicts {
			j.watched.looks(true) // what the last look has left out may be old, too
		}
	})
	for looked := false; ; {
		if err := j.local.checkSame(); err != nil {
			return err
		}
		j.watched.looks(waiter.pending)
		r, err := j.look(ctx, m)
		if err != nil {
			if err := j.meetAgain(ctx, j.mirror(remote), err); err != nil {
				return err
			}
			m = j.mirror(remote)
			continue
		}
		if err := j.afterTick(ctx, remote, &r); err != nil {
			return err
		}
		well()
		left := j.out.result(&r)
		if j.first != "" || j.blank || j.watch && j.removals == nil { // from now on both may change
			j.first, j.blank = "", false
			if j.watch && j.removals == nil {
				j.removals = mirror.NewRemovals(removedTogether)
			}
			m = j.mirror(remote)
		}
		if j.watch {
			j.watched.looked(left)
			if !looked {
				looked = true
				j.out.watching()
			}
		} else {
			if failed, ok := errors.AsType[*exitError](left); ok && failed.code == exitFailure {
				return left
			}
			if !r.InStep {
				return &exitError{exitRestless, errors.New("all has moved that there was, but a side goes on changing")}
			}
			return left
		}
		if err := waiter.wait(ctx, m); err != nil {
			return err
		}
	}
}
