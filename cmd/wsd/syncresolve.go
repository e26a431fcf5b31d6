package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/lineage"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/server/sqlite"
)

func newSyncConflictsCmd(a *app) *cobra.Command {
	var connect connectFlags
	job := &syncJob{app: a, flags: syncFlags{connect: &connect}, quiet: true}
	cmd := &cobra.Command{
		Use:   "conflicts [flags] LOCAL [URL]",
		Short: "List the paths that are held in conflict",
		Long: `Lists the paths that 'wsd sync --on-conflict hold' has left as they are on both sides,
with what each side has of them now. Nothing is moved. 'wsd sync resolve' decides.

The directory, the server and the flags are those of the 'wsd sync'. Without flags about
it, what that has left alone is left alone. A 'wsd sync --watch' that has the state open
answers, with its own flags.

Exit status: 0; 1 on failure; 2 for a command line that wsd does not understand.`,
		Example: "  wsd sync conflicts ~/project\n  wsd sync conflicts --json . ws://127.0.0.1:45678",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return usagef("write 'wsd sync conflicts LOCAL'", "conflicts wants a directory and a server, got %d arguments", len(args))
			}
			return job.flags.check(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := connect.take(args[1:]); err != nil {
				return err
			}
			return job.once(cmd.Context(), args[0], &doorRequest{Do: doorConflicts, JSON: job.asJSON}, job.listConflicts)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&job.asJSON, "json", false, "print one JSON object a line")
	job.flags.add(f)
	connect.add(f)
	return cmd
}

// listConflicts prints what is held in conflict.
func (j *syncJob) listConflicts(ctx context.Context, m *mirror.Mirror) error {
	list, err := m.Conflicts(ctx)
	if err != nil {
		return err
	}
	j.out.stderr = j.out.stdout // it is what was asked for
	for _, c := range list {
		j.out.conflict(c)
	}
	if len(list) == 0 && j.out.enc == nil {
		return say(j.out.stdout, "no path is held in conflict")
	}
	return nil
}

func newSyncResolveCmd(a *app) *cobra.Command {
	var connect connectFlags
	var ours, theirs, both bool
	job := &syncJob{app: a, flags: syncFlags{connect: &connect}, resolves: true}
	cmd := &cobra.Command{
		Use:   "resolve --ours|--theirs|--both [flags] PATH [URL]",
		Short: "Decide about a path that is held in conflict",
		Long: `Decides about PATH, and all below it, that 'wsd sync --on-conflict hold' has left as they
are on both sides: --ours sends the version here, --theirs takes the server's, --both
takes both. Of what is not here --ours removes the server's. The version that loses is
kept ('wsd sync lost'). What else there is to move moves as with 'wsd sync --on-conflict
hold'. PATH may be written as it was printed, with \xe9 for a byte that is not UTF-8.

The directory is the nearest one above PATH that was in step with the server; the
server and the flags are those of the 'wsd sync'. Without flags about it, what that has
left alone is left alone. A 'wsd sync --watch' that has the state open does it between
two looks, with its own flags.

Exit status: 0; 1 on failure; 2 for a command line that wsd does not understand; 3 when
nothing was changed, since a flag must say that it is meant; 5 when something could not
be read or cannot be synchronised, as with 'wsd sync'; 6 when some of it could not be
decided, which is named with the reason. Other paths that are held do not count.`,
		Example: "  wsd sync resolve --ours notes.txt\n  wsd sync resolve --theirs ~/project/src ws://127.0.0.1:45678",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return usagef("write 'wsd sync resolve --ours PATH'", "resolve wants a path and a server, got %d arguments", len(args))
			}
			given := 0
			for _, flag := range []bool{ours, theirs, both} {
				if flag {
					given++
				}
			}
			if given != 1 {
				return usagef("--ours sends the version here, --theirs takes the server's, --both takes both", "resolve wants one of --ours, --theirs and --both")
			}
			return job.flags.check(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			policy := map[bool]mirror.Policy{ours: mirror.Ours, theirs: mirror.Theirs, both: mirror.Both}[true]
			if err := connect.take(args[1:]); err != nil {
				return err
			}
			at, err := job.placeOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			rel := filepath.ToSlash(at.rel)
			q := &doorRequest{Do: doorResolve, JSON: job.asJSON, Path: []byte(rel), Policy: policy.String()}
			return job.once(cmd.Context(), at.dir, q, func(ctx context.Context, m *mirror.Mirror) error {
				return job.resolve(ctx, m, rel, policy)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&ours, "ours", false, "send the version here")
	f.BoolVar(&theirs, "theirs", false, "take the server's version")
	f.BoolVar(&both, "both", false, "take the server's version, and keep the one here beside it")
	f.BoolVar(&job.asJSON, "json", false, "print one JSON object a line")
	job.flags.add(f)
	connect.add(f)
	return cmd
}

// resolve decides about a path of the command line, and prints what came of it.
func (j *syncJob) resolve(ctx context.Context, m *mirror.Mirror, rel string, policy mirror.Policy) error {
	first, err := m.First(ctx)
	if err != nil {
		return err
	}
	if first != "" {
		return refused("to go on with it first: "+j.syncCommand(),
			"an earlier run has begun to bring %s and the server together with %s and did not come to its end", j.local.dir, firstFlag(first))
	}
	r, err := resolveTyped(ctx, m, rel, policy)
	if e, ok := errors.AsType[*mirror.NotHeldError](err); ok {
		shown := mirror.NotHeldError{Path: rawname.Show(localName(e.Path))}
		if e.With != "" {
			shown.With = rawname.Show(localName(e.With))
		}
		return withHint(&shown, "to list what is held: "+j.conflictsCommand())
	}
	if err != nil {
		return err
	}
	return j.out.result(&r)
}

// resolveTyped decides about the path that is meant with one of a command line.
func resolveTyped(ctx context.Context, m *mirror.Mirror, rel string, policy mirror.Policy) (r mirror.Result, err error) {
	for i, typedPath := range typedPaths(rel) {
		typed, terr := m.Resolve(ctx, path.Join(localMount, rawname.Encode(typedPath)), policy) // "." is all that is held
		if _, none := errors.AsType[*mirror.NotHeldError](terr); !none {
			return typed, terr
		}
		if i == 0 {
			r, err = typed, terr
		}
	}
	return r, err
}

// placeOf finds the directory that a path of the command line is in and that has a state with the server, else
// one that has another state.
func (j *syncJob) placeOf(ctx context.Context, typed string) (place, error) {
	target, err := j.flags.connect.syncTarget()
	if err != nil {
		return place{}, err
	}
	with := func(dir string) (bool, error) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return false, nil //nolint:nilerr // It is not there, and one above it is.
		}
		store, err := syncStore(dir, target.identity(j.flags.remotePath))
		if err == nil {
			_, err = os.Stat(store)
		}
		if errors.Is(err, iofs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	other := func(dir string) (bool, error) {
		list, err := statesAt(dir)
		return len(list) > 0, err
	}
	of := ""
	if j.flags.store != "" {
		if of, err = dirOfState(ctx, j.flags.store); err == nil && of == "" {
			err = fmt.Errorf("%s: it is of no directory", j.flags.store)
		}
		if err != nil {
			return place{}, err
		}
		with = func(dir string) (bool, error) { return dir == of, nil }
	}
	list, err := placesOf(typed, with)
	if err == nil && len(list) == 0 && of == "" {
		list, err = placesOf(typed, other)
	}
	switch {
	case err != nil:
		return place{}, err
	case len(list) > 0:
		return list[0], nil
	case of != "":
		return place{}, fmt.Errorf("%s is not in %s", safe(absolute(typed)), safe(of))
	}
	return place{}, withHint(fmt.Errorf("neither %s nor a directory above it was in step with %s", safe(absolute(typed)), target.called()), "write the URL that 'wsd sync' was given, or its --state FILE")
}

// once calls fn with the mirror of a directory that was in step with the server, over one
// connection. If a watch has the state open it is asked for q instead.
func (j *syncJob) once(ctx context.Context, dir string, q *doorRequest, fn func(context.Context, *mirror.Mirror) error) (err error) {
	j.flags.policy, j.met, j.keepRules = mirror.Hold, true, true
	if j.target, err = j.flags.connect.syncTarget(); err != nil {
		return err
	}
	remote, err := j.target.dial(ctx, j.app, &j.flags, client.Options{ClientName: "wsd"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remote.close()) }()
	j.out = newSyncOutput(j)
	defer j.out.close()
	j.local, err = openSyncLocal(ctx, dir, j.target, remote, &j.flags, false)
	if errors.Is(err, sqlite.ErrInUse) {
		j.tellServer()
		about, aerr := remote.about(lineage.Real(absolute(dir)), j.target)
		if aerr != nil {
			return errors.Join(err, aerr)
		}
		q.About, q.Flags = &about, j.flags.rulesOf
		_, err = j.app.askWatch(ctx, err, q)
		return err
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.local.close()) }()
	if j.local.made {
		j.local.forget()
		return withHint(fmt.Errorf("%s was never in step with %s", safe(dir), j.target.called()), "write the URL that 'wsd sync' was given, or its --state FILE")
	}
	if j.local.replaced != nil {
		return j.refuseReplaced()
	}
	j.local.forgot = j.out.forgot
	j.tellServer()
	return j.explain(ctx, fn(ctx, j.mirror(remote)))
}
