package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Check reads all rows and compares them: what must hold among them (see the package's
// comment). The error is an ErrDamaged that says what does not, up to a hundred times. Content of
// the trees that are named, and of the home's, may be in files of a directory, which are not
// looked at.
func (f *Forest) Check(ctx context.Context, inFiles ...string) error {
	if f.home != nil {
		inFiles = append(slices.Clone(inFiles), f.home.Tree())
	}
	a := audit{
		inFiles: inFiles,
		nodes:   map[int64]*audited{}, files: map[int64]int64{}, totals: map[int64]*Namespace{},
		chunks: map[Hash]Chunk{},
	}
	if err := f.store.View(ctx, a.run); err != nil {
		return wrap("check", err)
	}
	if len(a.found) > 0 {
		return fmt.Errorf("%w: %w", ErrDamaged, errors.Join(a.found...))
	}
	return nil
}

type audited struct {
	kind     Kind
	ns       int64
	size     int64
	links    int64
	stub     bool
	manifest Hash
	names    int64
	parent   int64
	state    int8 // of the search for cycles: 0 new, 1 on the way, 2 done
}

type audit struct {
	inFiles []string
	nodes   map[int64]*audited
	files   map[int64]int64 // parts by file
	totals  map[int64]*Namespace
	chunks  map[Hash]Chunk
	roots   map[int64]int64
	found   []error
}

func (a *audit) say(format string, args ...any) {
	if len(a.found) < 100 {
		a.found = append(a.found, fmt.Errorf(format, args...))
	}
}

func (a *audit) run(tx Tx) error {
	spaces, err := tx.Namespaces()
	if err != nil {
		return err
	}
	a.roots = map[int64]int64{}
	for _, ns := range spaces {
		a.totals[ns.ID] = &Namespace{Name: ns.Name, Rev: ns.Rev}
		a.roots[ns.ID] = ns.Root
	}
	for _, step := range []func(Tx) error{a.readNodes, a.readNames, a.readChunks, a.readParts} {
		if err := step(tx); err != nil {
			return err
		}
	}
	for ino, n := range a.nodes {
		a.node(ino, n)
	}
	for _, ns := range spaces {
		if err := a.space(tx, &ns); err != nil {
			return err
		}
	}
	return tx.EachPeer(func(ns int64, p Peer) error {
		if t := a.totals[ns]; t == nil {
			a.say("peer %s belongs to namespace %d, which is not there", p.ID, ns)
		} else if p.Push.Rev > t.Rev {
			a.say("peer %s has our revision %d, but namespace %s is at %d", p.ID, p.Push.Rev, t.Name, t.Rev)
		}
		return nil
	})
}

func (a *audit) readNodes(tx Tx) error {
	return tx.EachNode(func(n Node) error {
		a.nodes[n.Ino] = &audited{kind: n.Kind, ns: n.Namespace, size: n.Size, links: n.Links, stub: n.Stub, manifest: n.Manifest}
		t := a.totals[n.Namespace]
		switch {
		case t == nil:
			a.say("node %d belongs to namespace %d, which is not there", n.Ino, n.Namespace)
			return nil
		case n.Rev > t.Rev:
			a.say("node %d has revision %d, but namespace %s is at %d", n.Ino, n.Rev, t.Name, t.Rev)
		}
		switch n.Kind {
		case KindFile:
			t.Files++
			t.Bytes += n.Size
		case KindDir:
			t.Dirs++
		case KindSymlink:
			if checkTarget(n.Target) != nil {
				a.say("link %d has no target", n.Ino)
			}
		default:
			a.say("node %d is of kind %d", n.Ino, n.Kind)
		}
		if n.Mode&^ModeMask != 0 {
			a.say("node %d has mode %o", n.Ino, n.Mode)
		}
		return nil
	})
}

func (a *audit) readNames(tx Tx) error {
	return tx.EachName(func(n Name) error {
		child, parent, t := a.nodes[n.Child], a.nodes[n.Parent], a.totals[n.Namespace]
		switch {
		case child == nil || parent == nil || t == nil:
			a.say("name %q joins nodes %d and %d, which are not both there", n.Name, n.Parent, n.Child)
			return nil
		case child.ns != n.Namespace || parent.ns != n.Namespace:
			a.say("name %q joins two namespaces", n.Name)
		case parent.kind != KindDir:
			a.say("name %q is in node %d, which is no directory", n.Name, n.Parent)
		case n.Rev > t.Rev:
			a.say("name %q has revision %d, but namespace %s is at %d", n.Name, n.Rev, t.Name, t.Rev)
		}
		if n.Name == "" || strings.Contains(n.Name, "/") || checkPath("/"+n.Name) != nil {
			a.say("a name in node %d is %q", n.Parent, n.Name)
		}
		child.names++
		child.parent = n.Parent
		return nil
	})
}

func (a *audit) readChunks(tx Tx) error {
	return tx.EachChunk(func(c Chunk, stored int64) error {
		a.chunks[c.Hash] = c
		inline := c.Where&ChunkInline != 0
		if inline != (stored >= 0) {
			a.say("chunk %s is said to be at %d, and %d bytes of it are here", c.Hash, c.Where, stored)
		}
		if inline && stored >= 0 && stored != c.Size {
			a.say("chunk %s has %d bytes of %d", c.Hash, stored, c.Size)
		}
		if c.Size < 1 || c.Size > ChunkSize {
			a.say("chunk %s has a size of %d", c.Hash, c.Size)
		}
		return nil
	})
}

// readParts needs them by file and index.
func (a *audit) readParts(tx Tx) error {
	var ino int64
	var parts []Part
	flush := func() {
		if len(parts) == 0 {
			return
		}
		n := a.nodes[ino]
		if n == nil || n.kind != KindFile {
			a.say("node %d has content and is no file", ino)
			return
		}
		size, err := sizeOf(parts)
		if err != nil {
			a.say("file %d: %w", ino, err)
		}
		if n.stub {
			a.say("file %d is a stub and has content", ino)
		} else if size != n.size || ManifestOf(parts) != n.manifest {
			a.say("file %d has %d bytes and content of %d, or another manifest", ino, n.size, size)
		}
		a.files[ino] = size
	}
	err := tx.EachPart(func(of int64, index int, p Part) error {
		if of != ino {
			flush()
			ino, parts = of, parts[:0]
		}
		if index != len(parts) {
			a.say("file %d has part %d where %d should be", of, index, len(parts))
		}
		if c, ok := a.chunks[p.Hash]; !ok && !a.mayBeInFiles(of) || ok && (c.Where == 0 || c.Size != p.Size) {
			a.say("file %d consists of chunk %s with %d bytes, which is not there", of, p.Hash, p.Size)
		}
		parts = append(parts, p)
		return nil
	})
	flush()
	return err
}

// mayBeInFiles reports whether a node's content need not be in the store or in objects.
func (a *audit) mayBeInFiles(ino int64) bool {
	n := a.nodes[ino]
	if n == nil {
		return false
	}
	t := a.totals[n.ns]
	return t != nil && slices.Contains(a.inFiles, t.Name)
}

func (a *audit) node(ino int64, n *audited) {
	if n.kind == KindFile && !n.stub {
		if _, has := a.files[ino]; !has && (n.size != 0 || n.manifest != ManifestOf(nil)) {
			a.say("file %d has %d bytes and no content, or another manifest", ino, n.size)
		}
	}
	if a.roots[n.ns] == ino {
		if n.kind != KindDir || n.names != 0 {
			a.say("the root %d is no directory, or has a name", ino)
		}
		return
	}
	switch {
	case n.names < 1:
		a.say("node %d has no name", ino)
	case n.names != n.links:
		a.say("node %d has %d names and says %d", ino, n.names, n.links)
	case n.kind == KindDir && n.names != 1:
		a.say("directory %d has %d names", ino, n.names)
	}
	if n.kind == KindDir {
		a.rooted(ino)
	}
}

// rooted follows the parents of a directory to a root.
func (a *audit) rooted(ino int64) {
	var way []*audited
	for n := a.nodes[ino]; n != nil && n.state == 0 && n.names > 0; n = a.nodes[n.parent] {
		n.state = 1
		way = append(way, n)
		if next := a.nodes[n.parent]; next != nil && next.state == 1 {
			a.say("directory %d is in itself", ino)
			break
		}
	}
	for _, n := range way {
		n.state = 2
	}
}

func (a *audit) space(tx Tx, ns *Namespace) error {
	if root := a.nodes[ns.Root]; root == nil || root.ns != ns.ID {
		a.say("namespace %s has no root", ns.Name)
	}
	if t := a.totals[ns.ID]; t.Files != ns.Files || t.Dirs != ns.Dirs || t.Bytes != ns.Bytes {
		a.say("namespace %s counts %d files, %d directories, %d bytes; there are %d, %d, %d",
			ns.Name, ns.Files, ns.Dirs, ns.Bytes, t.Files, t.Dirs, t.Bytes)
	}
	moves, err := tx.Moves(ns.ID)
	if err != nil {
		return err
	}
	for _, m := range moves {
		if n := a.nodes[m.Ino]; n == nil || n.kind != KindDir || n.ns != ns.ID || m.Rev > ns.Rev {
			a.say("namespace %s moved node %d at %d, which cannot be", ns.Name, m.Ino, m.Rev)
		}
	}
	return tx.TombsAfter(ns.ID, ns.Rev, func(t Tomb) error {
		a.say("a tomb in namespace %s has revision %d of %d", ns.Name, t.Rev, ns.Rev)
		return nil
	})
}
