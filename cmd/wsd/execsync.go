package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/client/mirror"
)

// execSync is wsd exec --sync: both sides are brought in step before a command runs and
// after it.
type execSync struct {
	on    bool
	dir   string
	given bool // dir was
	quiet bool
	flags syncFlags
}

// execTold is up to how many changes of a command are told one by one.
const execTold = 10

// syncOnly are the flags that mean nothing without --sync.
var syncOnly = []string{"dir", "quiet", flagIgnore, flagInclude, flagIgnoreFile, flagGitignore, "on-conflict", "state", "remote-path", "merge", "from", "mirror", "one-way-safe", "create", "allow-home", "max-delete", flagLostAge, flagLostBytes, flagGarbageBytes, flagGarbageShare, flagAllowCode, flagAllowSetuid}

func (s *execSync) add(f *pflag.FlagSet) {
	f.BoolVar(&s.on, "sync", false, "run in the server's workspace, in step with your directory")
	f.StringVar(&s.dir, "dir", ".", "with --sync: your directory is `LOCAL`")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "with --sync: do not print what the command has changed")
	s.flags.add(f)
}

func (s *execSync) check(cmd *cobra.Command) error {
	if !s.on {
		for _, name := range syncOnly {
			if cmd.Flags().Changed(name) {
				return usagef("write --sync too", "--%s is about synchronising, and nothing is synchronised", name)
			}
		}
		return nil
	}
	s.given = cmd.Flags().Changed("dir")
	return s.flags.check(cmd)
}

// run brings both sides in step, runs the command and does so again.
func (s *execSync) run(ctx context.Context, f *runFlags, r *remoteRun, argv []string) (err error) {
	defer func() {
		if err != nil && !r.started {
			err = fmt.Errorf("%w; the command was not run", err)
		}
	}()
	catchBrokenPipes()
	tuneGC(os.Getenv, indexingGrowth)
	target, err := f.connect.syncTarget()
	if err != nil {
		return transportError(err)
	}
	if strings.HasPrefix(target.url, "http") {
		return usagef("write ws:// for http://", "commands run over JSON-RPC only, not at %s", target.url)
	}
	remote, err := target.dial(ctx, r.app, &s.flags, patient(r.app))
	if err != nil {
		return transportError(err)
	}
	defer func() { _ = remote.close() }() // the session ends with it, whatever it says
	job := &syncJob{app: r.app, flags: s.flags, asJSON: r.events, target: target, quiet: true}
	if job.local, err = openSyncLocal(ctx, s.dir, target, remote, &s.flags, false); err != nil {
		return syncError(err)
	}
	defer func() { err = errors.Join(err, job.local.close()) }()
	if err := s.refuseNested(job.local); err != nil {
		return err
	}
	job.out = newSyncOutput(job)
	job.out.kept, job.out.most = new([]mirror.Change), execTold
	defer job.out.close()
	job.tellUnread()
	job.tellOthers()
	if !s.quiet {
		job.tellNested()
	}
	if !r.events {
		job.out.stdout = r.app.stderr // the command's is its own
	}
	if _, err := s.step(ctx, job, remote, false); err != nil {
		return syncError(err)
	}
	if f.cwd, err = s.cwd(job.local.dir, remote.mount, f.cwd); err != nil {
		return transportError(err)
	}
	r.client = remote.client
	if r.command, err = f.command(ctx, r.client, argv); err != nil {
		return transportError(err)
	}
	ended := r.run(ctx)
	if failed, ok := errors.AsType[*exitError](ended); ok && failed.code == exitTransport && failed.err != nil {
		return ended
	}
	left, err := s.step(ctx, job, remote, true)
	if err != nil {
		job.out.note("the command ended with status %d", statusOf(ended))
		return syncError(err)
	}
	if ended == nil && left != nil {
		job.out.note("the command ended with status 0, but not all is the same on both sides")
		return left
	}
	if held, ok := errors.AsType[*exitError](left); ok && held.code == exitHeld && !s.quiet {
		job.out.note("%v; to list them: %s", left, job.conflictsCommand())
	}
	return ended // the command's own status says more
}

// refuseNested refuses a directory that is in one which is synchronised, unless --dir names it: the command
// would get a copy of the workspace there.
func (s *execSync) refuseNested(l *syncLocal) error {
	at := l.nestedIn()
	if at == "" || s.given {
		return nil
	}
	l.forget()
	return refused("--dir "+quoted(at)+" runs the command with that one, and where you are in it; --dir . brings this directory in step by itself",
		"%s is in %s, which 'wsd sync' keeps in step; nothing was changed", safe(l.dir), safe(at))
}

// statusOf is the exit status that the end of a command stands for.
func statusOf(ended error) int {
	if exit, ok := errors.AsType[*exitError](ended); ok {
		return exit.code
	}
	return exitOK
}

// syncError makes err one of wsd's own, unless it asks for a flag.
func syncError(err error) error {
	if isRefused(err) {
		return err
	}
	return transportError(err)
}

// step brings both sides in step. told says that what changes here is the command's doing,
// and is told. left is about paths that could not be read, or cannot be synchronised: the command
// runs without them.
func (s *execSync) step(ctx context.Context, job *syncJob, remote *syncRemote, told bool) (left, err error) {
	if err := job.local.checkSame(); err != nil {
		return nil, err
	}
	job.verbose, job.asJSON = told && !s.quiet, told && job.out.enc != nil
	err = job.meetAt(ctx, remote)
	var r mirror.Result
	for again := err == nil; again; again = err == nil && job.met {
		if r, err = job.mirror(remote).Tick(ctx); err == nil {
			err = job.afterTick(ctx, remote, &r)
			break
		}
		err = job.meetAgain(ctx, job.mirror(remote), err)
	}
	job.out.endBar()
	job.out.tellKept()
	if n := r.Undone - r.NotUndone; n > 0 && job.out.enc != nil {
		job.out.object(syncCount{"undone", n})
	} else if !s.quiet {
		job.out.undone(&r)
	}
	if err == nil {
		job.first, job.blank = "", false
	}
	if r.Held > 0 && told && job.out.enc != nil {
		job.out.object(syncCount{"held", r.Held})
	}
	if err == nil {
		left = job.out.leftOut(&r)
		if failed, ok := errors.AsType[*exitError](left); ok && failed.code == exitFailure {
			return nil, failed.err
		}
		return left, nil
	}
	if _, root := errors.AsType[*mirror.RootError](err); (root || isRefused(err)) && !job.met {
		job.local.forget()
	}
	if many, ok := errors.AsType[*mirror.DeletesError](err); ok {
		return nil, job.out.tooMany(many)
	}
	if conflicts, ok := errors.AsType[*mirror.ConflictError](err); ok {
		if told { // the command has changed the server
			return nil, job.out.conflicts(conflicts, "nothing came back")
		}
		return nil, job.out.conflicts(conflicts, "nothing was changed")
	}
	return nil, job.out.explain(err)
}

// cwd is where the command runs: what --cwd says, within the workspace, else where the
// user is below the directory.
func (s *execSync) cwd(dir, mount, asked string) (string, error) {
	if path.IsAbs(asked) {
		return asked, nil
	}
	if asked != "" {
		return path.Join(mount, asked), nil
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(dir, here)
	if err != nil || !filepath.IsLocal(rel) {
		return mount, nil //nolint:nilerr // It is somewhere else.
	}
	return path.Join(mount, filepath.ToSlash(rel)), nil
}
