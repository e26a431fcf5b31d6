package tree

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// An Entry is what the change stream says of one path.
type Entry struct {
	Kind   Kind
	Rev    int64 // of the sender
	Path   string
	Mode   uint32 // not of deletes
	MTime  time.Time
	Size   int64  // files
	Parts  []Part // files
	Target string // links
	Prior  string // deletes: 64 hexadecimal digits that identify what was removed, or ""
	// RenamedTo is where a directory is now that was renamed and not removed. Only the change
	// stream says so, in the delete of the topmost of the old paths.
	RenamedTo string
}

// Entry returns what the tree has of a path now: the node, else the tomb, else
// io/fs.ErrNotExist. It does not follow links. A stub is not there for peers.
func (t *Tree) Entry(ctx context.Context, path string) (Entry, error) {
	var out Entry
	if err := checkPath(path); err != nil {
		return out, at("read", path, err)
	}
	err := t.view(ctx, func(tx Tx, ns *Namespace) error {
		got, ok, err := entryAt(tx, ns, newResolver(tx, ns), path)
		if err == nil && !ok {
			err = iofs.ErrNotExist
		}
		out = got
		return err
	})
	return out, at("read", path, err)
}

// Entry is Tree.Entry as the edit has it so far.
func (e *Edit) Entry(path string) (Entry, error) {
	if err := checkPath(path); err != nil {
		return Entry{}, at("read", path, err)
	}
	// A tomb of the path may be due.
	if err := e.settleAll(); err != nil {
		return Entry{}, err
	}
	out, ok, err := entryAt(e.tx, &e.ns, e.res, path)
	if err == nil && !ok {
		err = iofs.ErrNotExist
	}
	return out, at("read", path, err)
}

// entryAt is the state of a path. Paths of peers have no links in them: one that leads
// through a link here names nothing.
func entryAt(tx Tx, ns *Namespace, r *resolver, path string) (Entry, bool, error) {
	s, err := r.plain(path)
	switch {
	case err != nil:
		return Entry{}, false, err
	case s.ok && !s.node.Stub:
		e, err := entryOf(tx, &s.node, path, s.rev())
		return e, true, err
	case s.ok:
		return Entry{}, false, nil
	}
	tomb, err := tx.Tomb(ns.ID, path)
	if err != nil && !errors.Is(err, ErrNoRow) {
		return Entry{}, false, err
	}
	// A newer one may be due that is not written yet.
	moves, err := tx.Moves(ns.ID)
	if err != nil {
		return Entry{}, false, err
	}
	for _, m := range moves {
		if m.Rev <= tomb.Rev {
			continue
		}
		n, ok, err := r.moved(m, path)
		if err != nil {
			return Entry{}, false, err
		}
		if ok {
			tomb = Tomb{Path: path, Rev: m.Rev, Prior: fingerprint(&n)}
		}
	}
	return entryOfTomb(&tomb), tomb.Rev > 0, nil
}

// moved finds the node that a move took away from a path.
func (r *resolver) moved(m Move, path string) (Node, bool, error) {
	n, err := r.tx.Node(m.Ino)
	if err != nil || path == m.OldPath {
		return n, err == nil, err
	}
	rest, ok := slashpath.Cut(path, m.OldPath)
	for ok && err == nil {
		var name string
		name, rest, ok = cutName(rest)
		var c Child
		if c, err = r.tx.Lookup(n.Ino, name); errors.Is(err, ErrNoRow) {
			return n, false, nil
		}
		n = c.Node
		if !ok {
			return n, true, err
		}
	}
	return n, false, err
}

func entryOf(tx Tx, n *Node, path string, rev int64) (Entry, error) {
	e := Entry{Kind: n.Kind, Rev: rev, Path: path, Mode: n.Mode, MTime: time.Unix(0, n.MTime)}
	var err error
	switch n.Kind {
	case KindFile:
		e.Size = n.Size
		e.Parts, err = tx.Parts(n.Ino)
	case KindSymlink:
		e.Target = n.Target
	default:
	}
	return e, err
}

func entryOfTomb(t *Tomb) Entry {
	return Entry{Kind: KindDelete, Rev: t.Rev, Path: t.Path, Prior: hex.EncodeToString(t.Prior)}
}

// plain is walk without links: a path through one leads to nothing.
func (r *resolver) plain(path string) (spot, error) {
	if path == "/" {
		return r.root()
	}
	d, rest := r.rootDir(), path[1:]
	for {
		name, behind, more := cutName(rest)
		if k := r.known[slashpath.Join(d.path, name)]; more && k != nil {
			d, rest = k, behind
			continue
		}
		s, err := r.look(d, name)
		if err != nil || !more {
			return s, err
		}
		if !s.ok || s.node.Kind != KindDir {
			s.ok = false
			return s, nil
		}
		d, rest = s.asDir(), behind
		r.remember(d)
	}
}

// ApplyMode says how Apply goes about it, as bits.
type ApplyMode uint8

const (
	// SkipSame: an entry that says what is there already changes nothing. That is, the
	// same content and mode of a file, the same mode of a directory, the same target of a
	// link. So what a peer sent us is not sent back for ever.
	SkipSame ApplyMode = 1 << iota
	// WriteTombs: what makes room for something of another kind leaves tombs, as it would
	// if it were removed first. Without them a peer that was away while a directory
	// became a file and then a directory again keeps what was in it.
	WriteTombs
	// RealParents: a link above the path of an entry makes room for a directory even if
	// it leads to one. The paths of a peer have no links in them, so what it calls a
	// directory is one; following the link would write beside it, and when the entry of
	// the directory itself comes later, what was written would not be in it.
	RealParents
	// Located: the caller has made sure that the forest's Home has the content of the entry's
	// file, or will have it at its path. Else content that only files have is kept apart.
	Located
	// SetTimes: with SkipSame, a file that is the same but for its time gets the time of the
	// entry.
	SetTimes
)

// SameTime reports whether two times of a file are the same as far as both are known: one
// without a fraction of a millisecond may have lost it on its way.
func SameTime(a, b time.Time) bool {
	const fraction = int(time.Millisecond)
	return a.Equal(b) || a.UnixMilli() == b.UnixMilli() && (a.Nanosecond()%fraction == 0 || b.Nanosecond()%fraction == 0)
}

// Apply makes a path what an entry says, whose sender's revision means nothing here.
// Missing directories above it are made, with mode 0755 and the entry's time; a file on
// the way, or a link that does not lead to a directory, makes room for one, as does what
// is at the path and of another kind. Apply reports whether it changed anything.
//
// A file with several names gets the content under the one name only, and is a file of
// its own from then on.
func (e *Edit) Apply(entry *Entry, how ApplyMode) (bool, error) {
	e.begin()
	before, skip := e.ns.Rev, how&SkipSame != 0
	e.tombs, e.real, e.times = how&WriteTombs != 0, how&RealParents != 0, how&SetTimes != 0
	e.located = how&Located != 0
	defer func() { e.located = false }()
	err := checkPath(entry.Path)
	if err == nil && entry.Path == "/" && entry.Kind != KindDir {
		err = iofs.ErrPermission
	}
	if err == nil {
		switch entry.Kind {
		case KindFile:
			err = e.applyFile(entry, skip)
		case KindDir:
			err = e.applyDir(entry, skip)
		case KindSymlink:
			err = e.applySymlink(entry, skip)
		case KindDelete:
			err = e.applyDelete(entry)
		default:
			err = fmt.Errorf("%w: an entry of kind %d", ErrInvalid, entry.Kind)
		}
	}
	return e.ns.Rev != before, at("apply", entry.Path, err)
}

func (e *Edit) applyFile(entry *Entry, skip bool) error {
	// All of it is checked before anything makes room.
	size, err := e.held(entry.Parts)
	if err != nil {
		return err
	}
	if size != entry.Size {
		return fmt.Errorf("%w: the chunks have %d bytes, the file %d", ErrInvalid, size, entry.Size)
	}
	s, err := e.spotFor(entry)
	if err != nil {
		return err
	}
	mode := entry.Mode & ModeMask
	if skip && s.ok && s.node.Kind == KindFile && !s.node.Stub && s.node.Mode == mode && s.node.Manifest == ManifestOf(entry.Parts) {
		if !e.times || SameTime(time.Unix(0, s.node.MTime), entry.MTime) {
			return nil
		}
		if e.changing != nil {
			e.changing(s.path, entry.Parts, s.node.Manifest, false)
		}
		s.node.MTime = Nanos(entry.MTime)
		return e.stamp(&s)
	}
	n := Node{Kind: KindFile, Mode: mode, MTime: Nanos(entry.MTime), BTime: Nanos(e.now)}
	if s.ok && s.node.Kind == KindFile {
		if s.node.Links == 1 {
			s.node.Mode, s.node.MTime = n.Mode, n.MTime
			return e.replace(&s, size, entry.Parts)
		}
		n.BTime, n.MIME = s.node.BTime, s.node.MIME
	}
	if err := e.clear(&s); err != nil {
		return err
	}
	return e.create(&s, &n, size, entry.Parts)
}

func (e *Edit) applyDir(entry *Entry, skip bool) error {
	s, err := e.spotFor(entry)
	if err != nil {
		return err
	}
	mode := entry.Mode & ModeMask
	if s.ok && s.node.Kind == KindDir {
		if skip && s.node.Mode == mode {
			return nil
		}
		s.node.Mode, s.node.MTime = mode, Nanos(entry.MTime)
		return e.stamp(&s)
	}
	if err := e.clear(&s); err != nil {
		return err
	}
	c, err := e.attach(s.dir, s.name.Name, &Node{Kind: KindDir, Mode: mode, MTime: Nanos(entry.MTime), BTime: Nanos(e.now)})
	if err == nil { // most likely what is in it comes next
		s.name, s.node = c.Name, c.Node
		e.res.remember(s.asDir())
	}
	return err
}

func (e *Edit) applySymlink(entry *Entry, skip bool) error {
	if err := checkTarget(entry.Target); err != nil {
		return err
	}
	s, err := e.spotFor(entry)
	if err != nil {
		return err
	}
	if skip && s.ok && s.node.Kind == KindSymlink && s.node.Target == entry.Target {
		return nil
	}
	if err := e.clear(&s); err != nil {
		return err
	}
	_, err = e.attach(s.dir, s.name.Name, &Node{
		Kind: KindSymlink, Mode: LinkMode, MTime: Nanos(entry.MTime), BTime: Nanos(e.now), Target: entry.Target,
	})
	return err
}

// applyDelete removes what the path names itself: it never goes through a link.
func (e *Edit) applyDelete(entry *Entry) error {
	// The entry of a directory that is removed is followed by those of all that was in it.
	if rest, is := strings.CutPrefix(entry.Path, e.gone); is && e.gone != "" && strings.HasPrefix(rest, "/") {
		return nil
	}
	s, err := e.res.plain(entry.Path)
	if err != nil || !s.ok {
		return err
	}
	return e.remove(&s, true)
}

// clear makes a spot free.
func (e *Edit) clear(s *spot) error {
	if !s.ok {
		return nil
	}
	s.ok = false
	if !e.tombs || s.node.Kind != KindDir {
		return e.remove(s, false)
	}
	if err := e.remove(s, true); err != nil {
		return err
	}
	e.begin() // what comes instead must come after the tombs
	return nil
}

// spotFor finds where an entry belongs, and makes the directories above it.
func (e *Edit) spotFor(entry *Entry) (spot, error) {
	path := entry.Path
	if path == "/" {
		return e.res.root()
	}
	d, rest := e.res.rootDir(), path[1:]
	for {
		name, behind, more := cutName(rest)
		if k := e.res.known[slashpath.Join(d.path, name)]; more && k != nil {
			d, rest = k, behind
			continue
		}
		s, err := e.res.look(d, name)
		if err != nil || !more {
			return s, err
		}
		if s, err = e.wayThrough(&s, entry); err != nil {
			return s, err
		}
		d, rest = s.asDir(), behind
		e.res.remember(d)
	}
}

// wayThrough makes sure that a spot above an entry is a directory, or a link to one.
func (e *Edit) wayThrough(s *spot, entry *Entry) (spot, error) {
	if s.ok && s.node.Kind == KindSymlink && !e.real {
		to, err := e.res.walk(s.path, true)
		switch {
		case err == nil && to.ok && to.node.Kind == KindDir:
			return to, nil
		case err != nil && Code(err) == "":
			return to, err // the store's, not the link's
		}
	}
	if s.ok && s.node.Kind == KindDir {
		return *s, nil
	}
	if err := e.clear(s); err != nil {
		return *s, err
	}
	c, err := e.attach(s.dir, s.name.Name, &Node{Kind: KindDir, Mode: 0o755, MTime: Nanos(entry.MTime), BTime: Nanos(e.now)})
	s.name, s.node, s.ok = c.Name, c.Node, err == nil
	return *s, err
}
