package tree

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// An Edit changes a tree, within one transaction. It is used by the function it was
// given to, and not after. When one of its methods fails otherwise than because of what
// it was asked (io/fs.ErrNotExist and the like), the function should return the error.
//
// Each method that changes something takes one new revision for all that it changes.
type Edit struct {
	tx   Tx
	tree *Tree
	ns   Namespace
	was  Namespace
	res  *resolver
	now  time.Time

	beside map[string]*Edit // of other trees, which are kept with this one
	// left is where files of the home have content that the edit, or the one that it is beside, has
	// taken from the tree. They have it until the edit is kept.
	left map[Hash]listed
	// changing is called for files, see Changing.
	changing func(path string, parts []Part, print Hash, removed bool)

	moves  []Move
	gone   string // a directory that was removed, "" once a name was put after that
	synced bool
	rev    int64 // what the running call has been given, 0 before it needs one
	tombs  bool  // the running Apply writes tombs of what makes room
	real   bool  // the running Apply goes through no link
	// located: the home has the content of the running Apply's file.
	located bool
	times   bool // the running Apply sets the times of files that are the same
}

// Update runs fn and keeps all that it changed if it returns nil, else nothing. It
// returns the tree's revision afterwards. Others read the old state meanwhile; those who
// write wait: fn must not wait for anything.
func (t *Tree) Update(ctx context.Context, fn func(*Edit) error) (int64, error) {
	var rev int64
	var changed []string
	err := t.forest.store.Update(ctx, func(tx Tx) error {
		changed = nil
		e, err := t.edit(tx)
		if err != nil {
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
		rev = e.ns.Rev
		for name, other := range e.beside {
			if other.ns.Rev != other.was.Rev {
				changed = append(changed, name)
			}
		}
		if rev != e.was.Rev {
			changed = append(changed, t.name)
		}
		return e.finish()
	})
	if err != nil {
		return 0, err
	}
	for _, name := range changed {
		t.forest.tell(name)
	}
	return rev, nil
}

func (t *Tree) edit(tx Tx) (*Edit, error) {
	ns, err := tx.Namespace(t.name)
	if err != nil {
		return nil, wrap("read tree", err)
	}
	set, err := ns.settings()
	if err != nil {
		return nil, err
	}
	e := &Edit{tx: tx, tree: t, ns: ns, was: ns, now: t.forest.cfg.Now(), synced: set.Synced, left: map[Hash]listed{}}
	e.res = newResolver(tx, &e.ns)
	e.moves, err = tx.Moves(ns.ID)
	return e, err
}

func (e *Edit) finish() error {
	for _, other := range e.beside {
		if err := other.finish(); err != nil {
			return err
		}
	}
	if e.ns == e.was {
		return nil
	}
	return e.tx.PutNamespace(&e.ns)
}

// Beside returns the Edit of another tree of the forest: what both change is kept together
// or not at all. The tree is made when there is none of that name.
func (e *Edit) Beside(name string) (*Edit, error) {
	if name == e.tree.name || !names.MatchString(name) {
		return nil, fmt.Errorf("%w: workspace namespace %q", ErrInvalid, name)
	}
	if other := e.beside[name]; other != nil {
		return other, nil
	}
	if _, err := e.tx.Namespace(name); errors.Is(err, ErrNoRow) {
		if err := e.tree.forest.plant(e.tx, name); err != nil {
			return nil, wrap("make tree", err)
		}
	}
	other, err := (&Tree{forest: e.tree.forest, name: name}).edit(e.tx)
	if err != nil {
		return nil, err
	}
	other.left = e.left
	if e.beside == nil {
		e.beside = map[string]*Edit{}
	}
	e.beside[name] = other
	return other, nil
}

// Changing has fn called for each file that the edit is about to remove, or to give other content,
// mode or time: with what it consists of so far, and the manifest of that. fn must not use the edit.
func (e *Edit) Changing(fn func(path string, parts []Part, print Hash, removed bool)) {
	e.changing = fn
}

// Tx is the transaction, for those who keep rows of their own in it beside the tree's.
func (e *Edit) Tx() Tx { return e.tx }

// Rev is the tree's revision so far.
func (e *Edit) Rev() int64 { return e.ns.Rev }

// Now is the time of the edit, which is what it stores where it is given none.
func (e *Edit) Now() time.Time { return e.now }

// begin starts a call that changes something.
func (e *Edit) begin() { e.rev = 0 }

// mint returns the revision of the running call, a new one the first time.
func (e *Edit) mint() (int64, error) {
	if e.rev == 0 {
		if e.ns.Rev >= MaxRev {
			return 0, fmt.Errorf("%w: the revisions are used up", ErrTooLarge)
		}
		e.ns.Rev++
		e.rev = e.ns.Rev
	}
	return e.rev, nil
}

// count adjusts the tree's totals by n nodes like node.
func (e *Edit) count(node *Node, n int64) {
	switch node.Kind {
	case KindFile:
		e.ns.Files += n
		e.ns.Bytes += n * node.Size
	case KindDir:
		e.ns.Dirs += n
	default:
	}
}

// attach makes a node and gives it a name that is free. A file consists of parts.
func (e *Edit) attach(d *dir, name string, node *Node, parts ...Part) (Child, error) {
	if err := checkLengths(slashpath.Join(d.path, name)); err != nil {
		return Child{}, err
	}
	if err := e.disturb(d, nil); err != nil {
		return Child{}, err
	}
	rev, err := e.mint()
	if err != nil {
		return Child{}, err
	}
	node.Namespace, node.Rev, node.Links = e.ns.ID, rev, 1
	if node.Kind == KindFile {
		err = e.tx.PutFile(node, nil, parts)
	} else {
		err = e.tx.PutNode(node)
	}
	if err != nil {
		return Child{}, err
	}
	e.count(node, 1)
	n := Name{Parent: d.ino, Name: name, Child: node.Ino, Namespace: e.ns.ID, Rev: rev}
	return Child{Name: n, Node: *node}, e.putName(n)
}

func (e *Edit) putName(n Name) error {
	e.gone = "" // it may be there again
	return e.tx.PutName(n)
}

// stamp stores a node that was changed.
func (e *Edit) stamp(s *spot) error {
	if err := e.renew(s); err != nil {
		return err
	}
	return e.tx.PutNode(&s.node)
}

// renew gives a node that is about to be stored the revision of the running call.
func (e *Edit) renew(s *spot) error {
	if err := e.disturb(s.dir, &s.node); err != nil {
		return err
	}
	rev, err := e.mint()
	s.node.Rev = rev
	return err
}

// SetPeer stores how far synchronisation with a peer has come, together with what else
// the edit does. Cursors only move forward: a smaller one than is stored is not taken.
// The stored row is returned.
func (e *Edit) SetPeer(p Peer) (Peer, error) {
	if p.ID == "" {
		return p, fmt.Errorf("%w: a peer without a name", ErrInvalid)
	}
	old, err := e.tx.Peer(e.ns.ID, p.ID)
	if err != nil && !errors.Is(err, ErrNoRow) {
		return p, err
	}
	if old.Push.Compare(p.Push) > 0 {
		p.Push = old.Push
	}
	if old.Fetch.Compare(p.Fetch) > 0 {
		p.Fetch = old.Fetch
	}
	p.Seen = e.now.UnixMilli()
	if err := e.share(); err != nil {
		return p, err
	}
	return p, e.tx.PutPeer(e.ns.ID, p)
}

// ResetPeer stores a peer's cursors whatever they were: what a peer that lost its store
// needs.
func (e *Edit) ResetPeer(p Peer) error {
	if p.ID == "" {
		return fmt.Errorf("%w: a peer without a name", ErrInvalid)
	}
	p.Seen = e.now.UnixMilli()
	if err := e.share(); err != nil {
		return err
	}
	return e.tx.PutPeer(e.ns.ID, p)
}

// share notes that somebody may hold a cursor of this tree from now on.
func (e *Edit) share() error {
	if e.synced {
		return nil
	}
	e.synced = true
	return e.ns.setSynced()
}

// Share notes that a peer may hold a cursor of the tree from now on: what answers the
// first call of a peer calls it. Until then the old paths of directories that are moved
// are not kept, since nobody has seen them. SetPeer and Changes do so by themselves.
func (t *Tree) Share(ctx context.Context) error {
	var shared bool
	err := t.view(ctx, func(_ Tx, ns *Namespace) error {
		set, err := ns.settings()
		shared = set.Synced
		return err
	})
	if err != nil || shared {
		return err
	}
	_, err = t.Update(ctx, (*Edit).share)
	return err
}
