package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// syncRestore is a run of wsd sync restore.
type syncRestore struct {
	app     *app
	state   string
	version int64
	to      string
}

func newSyncRestoreCmd(a *app) *cobra.Command {
	r := &syncRestore{app: a}
	cmd := &cobra.Command{
		Use:   "restore [flags] PATH",
		Short: "Bring a version of a file back that synchronising has replaced",
		Long: `Writes a version that 'wsd sync lost' lists back to PATH, with its mode and time: the
newest one of that path, or the one with the number of --version. The next 'wsd
sync' sends it as a change that was made here. What is at PATH now is kept as a
lost version first. PATH need not be there, but its synchronised directory must. It may
be written as it was printed, with \xe9 for a byte that is not UTF-8.

With --to the version is written to a new file elsewhere, and PATH stays as it is.

A 'wsd sync --watch' that has the state open does it between two looks, and sends it at
once. While another 'wsd sync' or a server has the state open it does not work.

Exit status: 0; 1 on failure; 2 for a command line that wsd does not understand.`,
		Example: `  wsd sync restore notes.txt
  wsd sync restore --version 7 ~/project/notes.txt
  wsd sync restore --to /tmp/notes.old notes.txt`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("write 'wsd sync restore PATH'", "restore wants one path, got %d arguments", len(args))
			}
			if cmd.Flags().Changed("version") && r.version < 1 {
				return usagef("'wsd sync lost' prints the numbers", "invalid value %d for --version: versions are numbered from 1 on", r.version)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	f := cmd.Flags()
	f.Int64Var(&r.version, "version", 0, "restore the version `N` (default: the newest of PATH)")
	textFlag(f, &r.state, "state", "it is kept in the state or store `FILE`")
	f.StringVar(&r.to, "to", "", "write it to the new file `FILE`, and leave PATH alone")
	return cmd
}

func (r *syncRestore) run(ctx context.Context, path string) error {
	found, err := r.findPlaced(ctx, path)
	if err != nil {
		return err
	}
	err = withKept(ctx, found.store, func(s *keptState) error {
		found, err := s.get(ctx, found.ID, found.Path) // a watch has listed it without its parts
		if err != nil {
			return err
		}
		if r.to != "" {
			return r.export(ctx, s.forest, found)
		}
		return r.restore(ctx, s, found)
	})
	if err != nil {
		_, err = r.app.askWatch(ctx, err, &doorRequest{Do: doorRestore, Version: found.ID, Of: found.Path, To: []byte(absolute(r.to))})
	}
	return err
}

// findPlaced finds the version that is meant with a path of the command line.
func (r *syncRestore) findPlaced(ctx context.Context, path string) (*keptVersion, error) {
	places, err := keptPlaces(ctx, r.state, path)
	if err == nil && len(places) == 0 {
		if r.state == "" {
			_, err = statesOf(path)
		} else {
			err = noVersion(path)
		}
	}
	if err != nil {
		return nil, err
	}
	var first error
	for _, p := range places {
		states := []string{r.state}
		if r.state == "" {
			if states, err = keptAt(p.dir); err != nil {
				return nil, err
			}
		}
		found, err := r.findTyped(ctx, states, p.file())
		if found != nil {
			return found, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// findTyped finds the version that is meant with a path of the command line.
func (r *syncRestore) findTyped(ctx context.Context, states []string, file string) (*keptVersion, error) {
	paths := typedPaths(file)
	found, err := r.find(ctx, states, file)
	for _, path := range paths[1:] {
		if found == nil {
			if other, oerr := r.find(ctx, states, path); oerr == nil {
				found, err = other, nil
			}
		}
	}
	return found, err
}

// find finds the version that is meant.
func (r *syncRestore) find(ctx context.Context, states []string, file string) (*keptVersion, error) {
	var found *keptVersion
	others := 0 // versions of the path that have other numbers
	for _, state := range states {
		list, err := keptIn(ctx, r.app, state, file, false)
		if err != nil {
			return nil, err
		}
		for _, v := range list {
			switch {
			case v.dir == "" || v.file() != file:
			case r.version != 0 && v.ID != r.version:
				others++
			case r.version != 0 && found != nil:
				return nil, withHint(fmt.Errorf("%s and %s both have a version %d of %s", found.store, v.store, v.ID, v.shown()), "--state FILE says which one is meant")
			case found == nil || !v.At.Before(found.At):
				found = v
			}
		}
	}
	switch {
	case found != nil:
		return found, nil
	case others > 0:
		return nil, withHint(fmt.Errorf("%s has no version %d", rawname.Show(file), r.version), "'wsd sync lost' lists the versions that are kept")
	}
	return nil, noVersion(file)
}

func noVersion(file string) error {
	return withHint(fmt.Errorf("no version of %s is kept", rawname.Show(file)), "'wsd sync lost' lists the versions that are kept")
}

// restore has the version take its place in the directory, which nobody else has open.
func (r *syncRestore) restore(ctx context.Context, s *keptState, v *keptVersion) (err error) {
	if err := mayBring(v); err != nil {
		return err
	}
	w, err := disk.Open(ctx, disk.Config{Dir: v.dir, Mount: mountOf(v), Forest: s.forest, Tree: s.tree, Objects: s.objects})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return r.bring(ctx, w, v)
}

// mayBring refuses a directory with nothing in it.
func mayBring(v *keptVersion) error {
	empty, err := emptied(v.dir)
	if err == nil && empty {
		err = withHint(fmt.Errorf("%s is gone or empty, and a file in it alone would have the next 'wsd sync' remove the others at the server", v.dir),
			"--to FILE writes the version elsewhere")
	}
	return err
}

// mountOf is where the directory of a version is in its tree.
func mountOf(v *keptVersion) string { return strings.TrimSuffix(v.Path, "/"+v.name) }

// bring has the version take its place in the directory.
func (r *syncRestore) bring(ctx context.Context, w *disk.Workspace, v *keptVersion) (err error) {
	entry := v.Entry
	entry.Path = v.Path
	var kept int64 // the number of what was there
	same := false
	done, err := w.Apply(ctx, func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
		kept, same, err = makeWay(e, &entry, v, mountOf(v))
		return func(yield func(tree.Entry, error) bool) {
			if err != nil || !same {
				yield(entry, err)
			}
		}
	}, tree.RealParents, nil)
	if err != nil {
		return fmt.Errorf("restore %s: %w", v.shown(), err)
	}
	if same {
		return say(r.app.stdout, "%s is version %d already", safe(v.shown()), v.ID)
	}
	for _, o := range done.Overtaken {
		kept = o.ID
	}
	text := fmt.Sprintf("restored version %d of %s", v.ID, safe(v.shown()))
	if kept != 0 {
		text += fmt.Sprintf("; the one that was there is version %d", kept)
	}
	return say(r.app.stdout, "%s", text)
}

// makeWay keeps the version that is at a path. same: it is the one that is to come.
func makeWay(e *tree.Edit, entry *tree.Entry, v *keptVersion, mount string) (kept int64, same bool, err error) {
	for dir := entry.Path; ; {
		dir = dir[:max(strings.LastIndexByte(dir, '/'), 1)]
		if dir == mount || dir == "/" {
			break
		}
		if there, err := e.Entry(dir); err == nil && (there.Kind == tree.KindFile || there.Kind == tree.KindSymlink) {
			return 0, false, inTheWay(rawname.Show(filepath.Join(v.dir, strings.TrimPrefix(dir, mount+"/"))), "no directory any more")
		} else if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return 0, false, err
		}
	}
	there, err := e.Entry(entry.Path)
	if errors.Is(err, iofs.ErrNotExist) || err == nil && there.Kind == tree.KindDelete {
		if _, err := os.Lstat(v.file()); err == nil {
			return 0, false, inTheWay(v.shown(), "there, and is nothing that is synchronised")
		}
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if there.Kind == tree.KindDir {
		return 0, false, inTheWay(v.shown(), "a directory now")
	}
	if tree.Fingerprint(&there) == tree.Fingerprint(entry) {
		return 0, true, nil
	}
	old := lost.Version{Path: entry.Path, At: e.Now(), Why: lost.Restored, By: tree.Fingerprint(entry), Entry: there}
	if err := lost.Keep(e, &old); err != nil {
		return 0, false, err
	}
	return old.ID, false, nil
}

func inTheWay(path, what string) error {
	return withHint(fmt.Errorf("%s is %s", path, what), "move it away, or write the version elsewhere with --to FILE")
}

// explainTo says what to do about a file of --to that cannot be made.
func (r *syncRestore) explainTo(err error) error {
	info, serr := os.Stat(r.to)
	switch {
	case serr == nil && info.IsDir():
		return withHint(fmt.Errorf("%s is a directory", r.to), "name a new file in it")
	case errors.Is(err, iofs.ErrExist):
		return withHint(fmt.Errorf("%s is there already, and is not replaced", r.to), "name a new file")
	case errors.Is(err, iofs.ErrNotExist):
		return withHint(err, "make the directory first")
	}
	return err
}

// export writes the version to a new file.
func (r *syncRestore) export(ctx context.Context, forest *tree.Forest, v *keptVersion) error {
	if v.Entry.Kind == tree.KindSymlink {
		if err := os.Symlink(rawname.Raw(v.Entry.Target), r.to); err != nil {
			return r.explainTo(err)
		}
		return say(r.app.stdout, "wrote version %d of %s to %s", v.ID, safe(v.shown()), safe(r.to))
	}
	f, err := os.OpenFile(r.to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return r.explainTo(err)
	}
	for _, p := range v.Entry.Parts {
		var data []byte
		if data, err = forest.Chunk(ctx, p.Hash, nil); err == nil {
			_, err = f.Write(data)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = f.Chmod(iofs.FileMode(v.Entry.Mode).Perm())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Chtimes(r.to, v.Entry.MTime, v.Entry.MTime)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write version %d: %w", v.ID, err), os.Remove(r.to))
	}
	return say(r.app.stdout, "wrote version %d of %s to %s", v.ID, safe(v.shown()), safe(r.to))
}
