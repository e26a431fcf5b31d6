package changes

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

// maxNamed is how many paths a Kept names.
const maxNamed = 3

// A Sparer keeps entries for directories from taking away what must stay of what is below
// them. It is used within an edit.
type Sparer struct {
	Edit *tree.Edit
	// Keep reports whether a path below a directory stays, with all that is below it.
	Keep func(path string, c *tree.Child) (bool, error)
	// Along reports whether what stays goes with its directory when that was renamed, to a path
	// that Renamed says and that is free; nil for nothing.
	Along   func(path, to string, c *tree.Child) (bool, error)
	Renamed map[string]string
}

// Renames finds the directories that were renamed among entries, which are in the order of
// their revisions: the new paths by the old ones. Senders say so (tree.Entry.RenamedTo). For older
// ones, whose entries of a rename all have one revision (tree.Edit), a revision that removes one
// directory and makes one is a rename. begun is a revision of which earlier entries have the
// beginning, so that it cannot be told by that; 0 for none.
func Renames(begun int64, entries iter.Seq2[tree.Entry, error]) (map[string]string, error) {
	found := map[string]string{}
	var rev int64
	var gone, made []string // what is topmost of the revision
	rename := func(from, to string) {
		if to != "/" && !slashpath.Within(to, from) {
			found[from] = to
		}
	}
	note := func() {
		if rev != begun && len(gone) == 1 && len(made) == 1 {
			rename(gone[0], made[0])
		}
		gone, made = gone[:0], made[:0]
	}
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		if e.Rev != rev {
			note()
			rev = e.Rev
		}
		if e.RenamedTo != "" {
			rename(e.Path, e.RenamedTo)
		}
		tops := &made
		if e.Kind == tree.KindDelete {
			tops = &gone
		}
		if n := len(*tops); n == 0 && (e.Kind == tree.KindDir || e.Kind == tree.KindDelete) || n > 0 && !slashpath.Within(e.Path, (*tops)[n-1]) {
			*tops = append(*tops, e.Path)
		}
	}
	note()
	return found, nil
}

// newPath is where a renamed directory has taken a path, "" for a path that was not renamed.
func (s *Sparer) newPath(path string) string {
	for old := path; old != ""; old = old[:strings.LastIndexByte(old, '/')] {
		if to := s.Renamed[old]; to != "" {
			return to + strings.TrimPrefix(path, old)
		}
	}
	return ""
}

// Entries are what is applied in place of an entry, and what stays: nothing else than the
// entry, and nil, unless it would take away something that stays. Then a delete becomes deletes of
// the rest; before an entry that leaves no directory there, what stays comes to a directory
// beside it, NAME.conflict-12345678.
func (s *Sparer) Entries(x *tree.Entry) ([]tree.Entry, *Kept, error) {
	only := []tree.Entry{*x}
	if x.Kind == tree.KindDir {
		return only, nil, nil
	}
	cur, err := s.Edit.Entry(x.Path)
	if errors.Is(err, iofs.ErrNotExist) || err == nil && cur.Kind != tree.KindDir {
		return only, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := s.Edit.Lstat(x.Path)
	if err != nil {
		return nil, nil, err
	}
	r := &sparing{sparer: s, kept: Kept{Path: x.Path}, like: *x, moved: x.Kind != tree.KindDelete}
	r.like.Kind, r.like.Prior, r.like.Parts, r.like.Size, r.like.Target = tree.KindDelete, "", nil, 0, ""
	if r.to = s.newPath(x.Path); r.moved {
		if r.to, err = s.freeName(x); err != nil {
			return nil, nil, err
		}
	}
	rest, any, err := r.dir(info.Ino, x.Path)
	switch {
	case err != nil:
		return nil, nil, err
	case !any:
		return append(r.aside, *x), nil, nil
	case r.moved:
		return append(r.aside, *x), &r.kept, nil
	}
	return append(r.aside, rest...), &r.kept, nil
}

// freeName is the name of a directory beside what an entry takes the place of.
func (s *Sparer) freeName(x *tree.Entry) (string, error) {
	mark := ".conflict-" + tree.Fingerprint(x)[:8]
	base := tree.Shorten(x.Path, len(mark)+4) + mark
	for n := 1; n <= 100; n++ {
		path := base
		if n > 1 {
			path = fmt.Sprintf("%s-%d", base, n)
		}
		_, err := s.Edit.Lstat(path)
		if errors.Is(err, iofs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: there are too many names beside %s", tree.ErrInvalid, x.Path)
}

// sparing is one call of Entries.
type sparing struct {
	sparer *Sparer
	like   tree.Entry // the deletes
	kept   Kept
	moved  bool
	to     string
	aside  []tree.Entry
}

// dir finds what stays of a directory. It returns the deletes of the rest, and whether
// anything stays.
func (r *sparing) dir(ino int64, path string) (rest []tree.Entry, any bool, err error) {
	for last := ""; ; {
		list, err := r.sparer.Edit.Tx().Children(ino, last, fetchPage)
		if err != nil {
			return nil, false, err
		}
		for i := range list {
			c := &list[i]
			last = c.Name.Name
			child := slashpath.Join(path, last)
			keep, err := r.sparer.Keep(child, c)
			if err != nil {
				return nil, false, err
			}
			if keep {
				along, err := r.along(child, c)
				if err != nil {
					return nil, false, err
				}
				if !along {
					any = true
					if err := r.keeps(child, c); err != nil {
						return nil, false, err
					}
					continue
				}
			}
			if !keep && c.Node.Kind == tree.KindDir {
				below, kept, err := r.dir(c.Node.Ino, child)
				if err != nil {
					return nil, false, err
				}
				if kept {
					any, rest = true, append(rest, below...)
					continue
				}
			}
			gone := r.like
			gone.Path = child
			rest = append(rest, gone)
		}
		if len(list) < fetchPage {
			return rest, any, nil
		}
	}
}

// along moves what goes with a renamed directory.
func (r *sparing) along(path string, c *tree.Child) (bool, error) {
	if r.moved || r.to == "" || r.sparer.Along == nil {
		return false, nil
	}
	to := r.to + strings.TrimPrefix(path, r.kept.Path)
	if free, err := r.isFree(to); err != nil || !free {
		return false, err
	}
	if along, err := r.sparer.Along(path, to, c); err != nil || !along {
		return false, err
	}
	return true, r.move(path, c)
}

// isFree reports whether nothing has a path, and nothing above it but a directory. It follows
// no links.
func (r *sparing) isFree(path string) (bool, error) {
	for p := path; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		e, err := r.sparer.Edit.Entry(p)
		switch {
		case errors.Is(err, iofs.ErrNotExist) || err == nil && e.Kind == tree.KindDelete:
		case err != nil:
			return false, err
		default:
			return p != path && e.Kind == tree.KindDir, nil
		}
	}
	return true, nil
}

// keeps notes that a path stays.
func (r *sparing) keeps(path string, c *tree.Child) error {
	if len(r.kept.Names) < maxNamed {
		r.kept.Names = append(r.kept.Names, path)
	} else {
		r.kept.More++
	}
	if !r.moved {
		return nil
	}
	return r.move(path, c)
}

// move gives what is at a path, with all that is below it, a path beside.
func (r *sparing) move(path string, c *tree.Child) error {
	e, err := r.sparer.Edit.Entry(path)
	if err != nil {
		return err
	}
	e.Path = r.to + strings.TrimPrefix(path, r.kept.Path)
	r.aside = append(r.aside, e)
	if c.Node.Kind != tree.KindDir {
		return nil
	}
	for last := ""; ; {
		list, err := r.sparer.Edit.Tx().Children(c.Node.Ino, last, fetchPage)
		if err != nil {
			return err
		}
		for i := range list {
			last = list[i].Name.Name
			if err := r.move(path+"/"+last, &list[i]); err != nil {
				return err
			}
		}
		if len(list) < fetchPage {
			return nil
		}
	}
}

// Topmost is a list without the paths that are below another one of it.
func Topmost(list []Kept) []Kept {
	paths := make(map[string]bool, len(list))
	for _, k := range list {
		paths[k.Path] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(k Kept) bool {
		for i := strings.LastIndexByte(k.Path, '/'); i > 0; i = strings.LastIndexByte(k.Path[:i], '/') {
			if paths[k.Path[:i]] {
				return true
			}
		}
		return false
	})
}

// A sparer leaves of the entries of a push what takes nothing away that its sender ignores, or
// does not know.
type sparer struct {
	ignore []string
	plain  bool // the sender is one of PlainNames
	edit   *tree.Edit
	kept   *[]Kept
	lost   *[]lost.Version
}

// entries leaves out what must be. renamed is as Sparer.Renamed.
func (s *sparer) entries(renamed map[string]string, in iter.Seq2[tree.Entry, error]) iter.Seq2[tree.Entry, error] {
	names := make(map[string]bool, len(s.ignore))
	for _, name := range s.ignore {
		names[name] = true
	}
	sp := Sparer{
		Edit: s.edit, Keep: func(_ string, c *tree.Child) (bool, error) {
			return names[c.Name.Name] || s.plain && !plainChild(c), nil
		},
		Along: func(string, string, *tree.Child) (bool, error) { return true, nil }, Renamed: renamed,
	}
	return func(yield func(tree.Entry, error) bool) {
		for x, err := range in {
			list := []tree.Entry{x}
			if err == nil {
				var k *Kept
				if list, k, err = s.link(&sp, &x); k != nil {
					*s.kept = append(*s.kept, *k)
				}
			}
			if err != nil {
				yield(tree.Entry{}, err)
				return
			}
			for i := range list {
				if !yield(list[i], nil) {
					return
				}
			}
		}
	}
}

// link is Sparer.Entries, also for an entry at the path of a link that its sender does not know:
// a delete leaves the link, anything else takes its place, and the link is kept as a version.
func (s *sparer) link(sp *Sparer, x *tree.Entry) ([]tree.Entry, *Kept, error) {
	if !s.plain {
		return sp.Entries(x)
	}
	cur, err := s.edit.Entry(x.Path)
	switch {
	case errors.Is(err, iofs.ErrNotExist) || err == nil && !rawLink(&cur):
		return sp.Entries(x)
	case err != nil:
		return nil, nil, err
	case x.Kind == tree.KindDelete:
		return nil, &Kept{Path: x.Path, Names: []string{x.Path}}, nil
	}
	v := lost.Version{Path: x.Path, At: s.edit.Now(), Why: lost.Overtaken, By: tree.Fingerprint(x), Entry: cur}
	if err := lost.Keep(s.edit, &v); err != nil {
		return nil, nil, err
	}
	*s.lost = append(*s.lost, v)
	return []tree.Entry{*x}, nil, nil
}

// KeptToWire is how a push answers what is kept.
func KeptToWire(list []Kept) []protocol.KeptPath {
	var out []protocol.KeptPath
	for _, k := range list {
		out = append(out, protocol.KeptPath{Path: k.Path, Names: k.Names, More: k.More})
	}
	return out
}

// KeptFromWire is the inverse of KeptToWire.
func KeptFromWire(list []protocol.KeptPath) []Kept {
	var out []Kept
	for _, k := range list {
		out = append(out, Kept{Path: k.Path, Names: k.Names, More: k.More})
	}
	return out
}
