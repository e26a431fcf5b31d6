package disk

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// An object is one (package objects) that is the content of files that are to be made.
type object struct {
	number int64
	size   int64
	parts  []tree.Part
	left   atomic.Int64 // files that have not been made
	files  int          // all of them; 0 if there may be others
	// shared: others have the same content, and keep it themselves.
	shared bool
	// lifted is the file that it was. foreign: it is not what parts say, since a command that
	// opened that file just then has written to it. unsure: it may not be.
	lifted          stat
	foreign, unsure bool
}

// A leaving is a file that an entry replaces or removes.
type leaving struct {
	path  string
	parts []tree.Part
	print tree.Hash // manifest
	// removed: nothing comes to its place.
	removed bool
	// wanted: an entry has its content at another path, of this batch or of one to come.
	wanted bool
	object *object // that it has become then; nil if it is gone
	// last: it is not known by its content, since that was wanted and could not be secured, or since
	// print is not known.
	last bool
}

// contents finds where the content of a plan's files is, before they are made.
type contents struct {
	w *Workspace
	// leaving are files that entries replace or remove, by path; missing the items whose content
	// is not all in the store or in objects; objects what becomes files, by number.
	leaving map[string]*leaving
	racy    []string // leaving files that may have changed without a trace
	last    []string // leaving files that may be the last that have their content
	missing []*item
	objects map[int64]*object
	// written is how many bytes are written for the files of the batch.
	written int64
	// made are objects that were made of such content, by manifest, placed those that a file is in.
	// drop are those that nothing is in any more.
	made   map[tree.Hash]int64
	placed map[int64]bool
	drop   []int64
	// unsynced: some of made may not be on the disk yet.
	unsynced bool
	// tight are items for whose content there was no room, as err says. No content of full bytes or more is
	// written any more.
	tight []*item
	err   error
	full  int64
	// later is what is too much to be copied in a transaction, windows where leaving files have
	// content.
	later   []*item
	copied  int64
	windows map[tree.Hash]window
}

// A window of a file that is leaving.
type window struct {
	path   string
	offset int64
}

// errCopyFirst says that content is to be copied before a plan can be made.
var errCopyFirst = errors.New("content is to be copied first")

// leaves notes a file that an entry replaces or removes.
func (c *contents) leaves(l *leaving) {
	if len(c.leaving) >= maxLeaving || c.leaving[l.path] != nil {
		return // of more than these, what is wanted is found to be missing
	}
	if c.leaving == nil {
		c.leaving = map[string]*leaving{}
	}
	c.leaving[l.path] = l
	if n := c.w.index.find(l.path); n != nil && n.stat.flags&(unsure|linked) != 0 {
		c.racy = append(c.racy, l.path)
	}
}

// content finds where the content of a file is that is to be made.
func (c *contents) content(e *tree.Edit, it *item, size int64) error {
	number, err := e.Whole(it.parts)
	if errors.Is(err, tree.ErrUnknownHash) {
		c.missing = append(c.missing, it)
		return nil
	}
	if err != nil {
		return err
	}
	c.becomes(it, number, size)
	return nil
}

// becomes notes that an object becomes the file of an item; 0 stands for none.
func (c *contents) becomes(it *item, number int64, size int64) {
	// What nobody could read any more is kept apart.
	if number == 0 || it.mode&0o400 == 0 {
		c.written += size
		return
	}
	o := c.objects[number]
	switch {
	case o != nil && !slices.Equal(o.parts, it.parts):
		c.written += size // it begins with the same; Used finds that there are two
		return
	case o == nil:
		if c.objects == nil {
			c.objects = map[int64]*object{}
		}
		o = &object{number: number, size: size, parts: it.parts}
		c.objects[number] = o
		if c.w.apart.Load() {
			c.written += size
		}
	default:
		c.written += size
	}
	o.files++
	o.left.Add(1)
	it.object = o
}

// locate finds content that only files have: it leaves one that an entry removes, or is copied.
// Then it finds out which objects nothing else needs.
func (c *contents) locate(ctx context.Context, e *tree.Edit, now func(*item) (bool, error), share func([]*object) error) error {
	byPrint := map[tree.Hash][]*leaving{}
	if len(c.missing) > 0 && !c.w.apart.Load() {
		for _, path := range slices.Sorted(maps.Keys(c.leaving)) {
			if l := c.leaving[path]; l.removed {
				byPrint[l.print] = append(byPrint[l.print], l)
			}
		}
	}
	for _, it := range c.missing {
		if is, err := now(it); !is || err != nil {
			if err != nil {
				return err
			}
			continue // another entry has come to its path
		}
		print := tree.ManifestOf(it.parts)
		if list := byPrint[print]; len(list) > 0 {
			list[0].wanted = true
			it.from = list[0]
			byPrint[print] = list[1:]
			continue
		}
		if err := c.copyNow(ctx, e, it, print); err != nil {
			return err
		}
	}
	if len(c.later) > 0 {
		return errCopyFirst
	}
	if err := c.tooLarge(); err != nil {
		return err
	}
	if err := c.sync(); err != nil {
		return err
	}
	for _, l := range c.leaving {
		if l.removed && len(l.parts) > 0 && !c.w.apart.Load() && c.w.cfg.Forest.Wanted(l.parts[0].Hash) {
			l.wanted = true // a peer counts on it in a batch to come
		}
	}
	byFiles := map[int][]*object{}
	for _, o := range c.objects {
		byFiles[o.files] = append(byFiles[o.files], o)
	}
	var others []*object // which others refer to, or some files of which are not made
	for files, list := range byFiles {
		parts := make([][]tree.Part, len(list))
		for i, o := range list {
			parts[i] = o.parts
		}
		used, err := e.Used(parts, files+1)
		if err != nil {
			return err
		}
		for i, o := range list {
			if used[i] != files {
				others = append(others, o)
			}
		}
	}
	return share(others)
}

func sizeOfParts(parts []tree.Part) (size int64) {
	for _, p := range parts {
		size += p.Size
	}
	return size
}

// copyNow makes an object of the content of an item, or leaves that for later if it is much.
func (c *contents) copyNow(ctx context.Context, e *tree.Edit, it *item, print tree.Hash) error {
	size := sizeOfParts(it.parts)
	number := c.made[print]
	if number == 0 {
		if c.copied += size; c.copied > maxCopied {
			c.later = append(c.later, it)
			return nil
		}
		var err error
		if number, err = c.assemble(ctx, it, e.Beginning, e.Content); err != nil {
			return c.leaveTight(it, err)
		}
		c.make(print, number)
	}
	drop, err := e.Place(tree.Became{Parts: it.parts, Object: number})
	if err != nil {
		return err
	}
	if c.placed == nil {
		c.placed = map[int64]bool{}
	}
	c.placed[number] = true
	c.drop = append(c.drop, drop...)
	c.becomes(it, number, size)
	return nil
}

// leaveTight takes the error of copying the content of an item: if there was no room for it, the others are
// copied all the same.
func (c *contents) leaveTight(it *item, err error) error {
	if !tree.NoRoom(err) {
		return err
	}
	size := sizeOfParts(it.parts)
	if c.err == nil {
		c.full = size
	}
	c.tight, c.err, c.full = append(c.tight, it), err, min(c.full, size)
	return nil
}

// tooLarge names the items for whose content there was no room: their entries are refused, and not those
// beside them.
func (c *contents) tooLarge() error {
	if len(c.tight) == 0 {
		return nil
	}
	e := &changes.Error{Code: changes.CodeNoRoom, Path: c.w.treePath(c.tight[0].path), Err: c.err}
	for _, it := range c.tight[1:] {
		e.More = append(e.More, c.w.treePath(it.path))
	}
	return e
}

// make notes an object that was made of content.
func (c *contents) make(print tree.Hash, number int64) {
	c.unsynced = true
	if c.made == nil {
		c.made = map[tree.Hash]int64{}
	}
	c.made[print] = number
}

// copies makes objects of content that was left for later, of the smallest first: of what is larger than
// one that does not fit nothing is written.
func (c *contents) copies(ctx context.Context) error {
	slices.SortStableFunc(c.later, func(a, b *item) int { return cmp.Compare(sizeOfParts(a.parts), sizeOfParts(b.parts)) })
	for _, it := range c.later {
		print := tree.ManifestOf(it.parts)
		if c.made[print] != 0 {
			continue
		}
		number, err := c.assemble(ctx, it, func(h tree.Hash) ([]string, error) { return c.w.cfg.Forest.Beginning(ctx, h) },
			func(h tree.Hash, dst []byte) ([]byte, error) { return c.w.cfg.Forest.Chunk(ctx, h, dst) })
		if err == nil {
			c.make(print, number)
		} else if err = c.leaveTight(it, err); err != nil {
			return err
		}
	}
	if err := c.tooLarge(); err != nil {
		return err
	}
	return c.sync()
}

// sync brings the objects that were made to the disk: once the index says that content is there, what
// had it until now may go.
func (c *contents) sync() error {
	if !c.unsynced {
		return nil
	}
	c.unsynced = false
	return c.w.home.Sync()
}

// unused removes the objects that were made for a plan and that nothing of it is in: all if it failed.
func (c *contents) unused(failed bool) {
	for _, number := range c.made {
		if failed || !c.placed[number] {
			c.w.home.Drop(number)
		}
	}
}

// assemble makes an object of the content of an item: of a file that has all of it, or of what is read.
func (c *contents) assemble(ctx context.Context, it *item, beginning func(tree.Hash) ([]string, error), read func(tree.Hash, []byte) ([]byte, error)) (number int64, err error) {
	if c.windows == nil {
		c.windows = map[tree.Hash]window{}
		for path, l := range c.leaving {
			for i, p := range l.parts {
				c.windows[p.Hash] = window{path, int64(i) * tree.ChunkSize}
			}
		}
	}
	if number := c.clone(ctx, it.parts, beginning); number != 0 {
		return number, nil
	}
	if c.err != nil && sizeOfParts(it.parts) >= c.full {
		return 0, c.err
	}
	out := c.w.home.dir.Writer()
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil && number != 0 {
			c.w.home.Drop(number)
		}
	}()
	var buf []byte
	for _, p := range it.parts {
		got := false
		if at, leaves := c.windows[p.Hash]; leaves {
			var err error
			buf, err = c.w.home.File(c.w.treePath(at.path), at.offset, p.Size, buf[:0])
			got = err == nil && tree.Sum(buf) == p.Hash
		}
		if !got {
			if buf, err = read(p.Hash, buf[:0]); err != nil {
				return number, err
			}
		}
		if err := c.w.fault("copy", it.path); err != nil {
			return number, err
		}
		at, err := out.Write(buf)
		if err != nil {
			return number, err
		}
		number = at.File
	}
	return number, nil
}
