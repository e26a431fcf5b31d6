// Package lost keeps versions of files and links that something else has taken the place
// of, until they are restored, or too old, or too large together.
//
// They are files of a tree of their own in the same forest, so that their content stays as
// that of other files does. Version N is the file or link /N/version, with N in 16 digits;
// the targets of the links /N/path, /N/why and /N/by say the rest, and the time of /N is
// when it was lost. The target of the link /next is the number of the next one.
package lost

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"strconv"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Tree is the name of the tree in its forest.
const Tree = "lost"

// A Reason says why a version was lost.
type Reason string

// The reasons.
const (
	// Overtaken: it was written after the last look at its path, and something that was on
	// its way came to its place.
	Overtaken Reason = "overtaken"
	// Conflict: its path had changed on both sides, and the other version was taken.
	Conflict Reason = "conflict"
	// Restored: a version that had been lost before came to its place.
	Restored Reason = "restored"
	// Undone: it was a change of the side that was to become what the other one is.
	Undone Reason = "undone"
)

// A Version is one that was lost.
type Version struct {
	// ID numbers the versions of a forest, from 1 on: later ones are greater. No number is
	// given twice.
	ID   int64
	Path string // that it had, in the tree of its workspace
	At   time.Time
	Why  Reason
	// By is the print (tree.Fingerprint) of what took its place, "" for nothing: its path was
	// removed.
	By string
	// Entry is the version itself: a file or link. Its Path is that of the workspace, its Rev
	// means nothing.
	Entry tree.Entry
}

// The names of what there is of a version.
const (
	versionName = "version"
	pathName    = "path"
	whyName     = "why"
	byName      = "by"
	nextPath    = "/next"
)

func dirOf(id int64) string { return fmt.Sprintf("/%016d", id) }

// Keep keeps a version of a file or link together with what else the edit does, and sets
// its ID. Its content must be held.
func Keep(e *tree.Edit, v *Version) error {
	if err := keep(e, v); err != nil {
		return fmt.Errorf("keep a version of %s: %w", v.Path, err)
	}
	return nil
}

func keep(e *tree.Edit, v *Version) error {
	if v.Entry.Kind != tree.KindFile && v.Entry.Kind != tree.KindSymlink {
		return fmt.Errorf("%w: neither file nor link", tree.ErrInvalid)
	}
	beside, err := e.Beside(Tree)
	if err != nil {
		return err
	}
	id := int64(1)
	next, err := beside.Entry(nextPath)
	switch {
	case err == nil:
		if id, err = strconv.ParseInt(next.Target, 10, 64); err != nil {
			return fmt.Errorf("%w: the number of the next version is %q", tree.ErrDamaged, next.Target)
		}
	case !errors.Is(err, iofs.ErrNotExist):
		return err
	}
	dir := dirOf(id)
	version := v.Entry
	version.Path = dir + "/" + versionName
	link := func(path, target string) tree.Entry {
		return tree.Entry{Kind: tree.KindSymlink, Path: path, Target: target, MTime: v.At}
	}
	rows := []tree.Entry{
		link(nextPath, strconv.FormatInt(id+1, 10)),
		{Kind: tree.KindDir, Path: dir, Mode: 0o700, MTime: v.At},
		version, link(dir+"/"+pathName, v.Path), link(dir+"/"+whyName, string(v.Why)),
	}
	if v.By != "" {
		rows = append(rows, link(dir+"/"+byName, v.By))
	}
	for i := range rows {
		if _, err := beside.Apply(&rows[i], tree.RealParents); err != nil {
			return err
		}
	}
	v.ID = id
	return nil
}

// Last is the number of the version that was lost last, 0 before any was.
func Last(ctx context.Context, f *tree.Forest) (int64, error) {
	next := ""
	t, err := f.Find(ctx, Tree)
	if err == nil {
		next, err = t.Readlink(ctx, nextPath)
	}
	if errors.Is(err, iofs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseInt(next, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: the number of the next version is %q", tree.ErrDamaged, next)
	}
	return id - 1, nil
}

// page is how many versions are listed at once.
const page = 256

// List calls fn for the versions that are kept, the oldest first, from behind a number on.
// An error of fn ends it.
func List(ctx context.Context, f *tree.Forest, after int64, fn func(*Version) error) error {
	t, err := f.Find(ctx, Tree)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for last := dirOf(max(after, 0))[1:]; ; {
		list, err := t.ReadDir(ctx, "/", last, page)
		if err != nil {
			return err
		}
		for i := range list {
			last = list[i].Name()
			id, err := strconv.ParseInt(last, 10, 64)
			if err != nil {
				continue // nextPath
			}
			v, err := read(ctx, t, id)
			if errors.Is(err, iofs.ErrNotExist) {
				continue // it went just now
			}
			if err == nil {
				err = fn(v)
			}
			if err != nil {
				return err
			}
		}
		if len(list) < page {
			return nil
		}
	}
}

// Get is one version; io/fs.ErrNotExist says that it is not kept.
func Get(ctx context.Context, f *tree.Forest, id int64) (*Version, error) {
	t, err := f.Tree(ctx, Tree)
	if err != nil {
		return nil, err
	}
	return read(ctx, t, id)
}

func read(ctx context.Context, t *tree.Tree, id int64) (*Version, error) {
	v, dir := &Version{ID: id}, dirOf(id)
	var err error
	if v.Entry, err = t.Entry(ctx, dir+"/"+versionName); err == nil && v.Entry.Kind == tree.KindDelete {
		err = &iofs.PathError{Op: "read", Path: dir, Err: iofs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	info, err := t.Lstat(ctx, dir)
	if err != nil {
		return nil, err
	}
	v.At = info.MTime
	if v.Path, err = t.Readlink(ctx, dir+"/"+pathName); err != nil {
		return nil, err
	}
	v.Entry.Path = v.Path
	why, err := t.Readlink(ctx, dir+"/"+whyName)
	if err != nil {
		return nil, err
	}
	v.Why = Reason(why)
	if v.By, err = t.Readlink(ctx, dir+"/"+byName); errors.Is(err, iofs.ErrNotExist) {
		err = nil
	}
	return v, err
}

// Drop forgets a version together with what else the edit does. io/fs.ErrNotExist says that
// it is not kept.
func Drop(e *tree.Edit, id int64) error {
	beside, err := e.Beside(Tree)
	if err != nil {
		return err
	}
	return beside.Forget(dirOf(id))
}

// Bounds say how long versions are kept, and how much of them.
type Bounds struct {
	Age   time.Duration // 0 for DefaultAge, negative for ever
	Bytes int64         // of the content of all, 0 for DefaultBytes, negative for any
}

// The bounds unless told otherwise.
const (
	DefaultAge   = 30 * 24 * time.Hour
	DefaultBytes = 1 << 30
)

// Young is the age below which Bounds.Bytes has no version forgotten: people were just told
// that it is kept. For as long the bound may be exceeded.
const Young = time.Hour

// maxNamed bounds the paths that a Trimmed names.
const maxNamed = 5

// Trimmed is what Trim has forgotten.
type Trimmed struct {
	Versions int
	Bytes    int64
	TooLarge int      // of the versions, those that Bounds.Age had left
	Names    []string // the paths of some of them
}

// Trim forgets versions that are older than the bounds allow, then the oldest until the
// rest are within them, or Young.
func Trim(ctx context.Context, f *tree.Forest, b Bounds, now time.Time) (Trimmed, error) {
	if b.Age == 0 {
		b.Age = DefaultAge
	}
	if b.Bytes == 0 {
		b.Bytes = DefaultBytes
	}
	var done Trimmed
	t, err := f.Tree(ctx, Tree)
	if err != nil {
		return done, err
	}
	info, err := t.Info(ctx)
	if err != nil {
		return done, err
	}
	left := info.Bytes
	var drop []int64
	enough := errors.New("the rest are kept")
	err = List(ctx, f, 0, func(v *Version) error {
		age := now.Sub(v.At)
		old := b.Age > 0 && age > b.Age
		young := age.Abs() < Young // not one of before the clock was set back
		if !old && (b.Bytes < 0 || left <= b.Bytes || young) {
			return enough
		}
		if !old {
			done.TooLarge++
			if len(done.Names) < maxNamed {
				done.Names = append(done.Names, v.Path)
			}
		}
		drop = append(drop, v.ID)
		left -= v.Entry.Size
		done.Bytes += v.Entry.Size
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return Trimmed{}, err
	}
	for len(drop) > 0 {
		some := drop[:min(len(drop), page)]
		drop = drop[len(some):]
		n := 0
		_, err := t.Update(ctx, func(e *tree.Edit) error {
			n = 0
			for _, id := range some {
				err := e.Forget(dirOf(id))
				if errors.Is(err, iofs.ErrNotExist) {
					continue
				}
				if err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil {
			return done, err
		}
		done.Versions += n
	}
	return done, nil
}
