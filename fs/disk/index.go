package disk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// An index is what every path looked like when it was in step: the rows, in memory, about
// 130 bytes for each path. What it names is in the tree, and in the directory unless that
// has changed.
type index struct {
	root  *node
	count int
	// again are the paths that are to be looked at whatever is told of them, linked the
	// files with other names.
	again  map[string]struct{}
	linked map[*node]struct{}
	// raw are the nodes whose name, or target, is not UTF-8. rawMoved: their paths are others
	// than they were.
	raw      map[*node]struct{}
	rawMoved bool
}

type node struct {
	name   string
	parent *node
	stat   stat
	kids   *kids // of directories
}

func newIndex() *index {
	return &index{
		root:  &node{stat: stat{kind: tree.KindDir}},
		again: map[string]struct{}{}, linked: map[*node]struct{}{}, raw: map[*node]struct{}{}, rawMoved: true,
	}
}

// path is relative to the root, whose own is "".
func (n *node) path() string {
	if n.parent == nil {
		return ""
	}
	return slashpath.Join(n.parent.path(), n.name)
}

// find returns nil for what is not in the index.
func (x *index) find(path string) *node {
	n := x.root
	for path != "" && n != nil {
		name, rest, _ := strings.Cut(path, "/")
		n, path = n.kids.get(name), rest
	}
	return n
}

// put sets what a path looks like. The directory that it is in is there.
func (x *index) put(path string, s stat) error {
	if path == "" {
		x.root.stat = s
		return nil
	}
	dir, name := slashpath.Split(path)
	d := x.find(dir)
	if d == nil || d.stat.kind != tree.KindDir {
		return fmt.Errorf("%w: the directory's index has %s and not where it is", tree.ErrDamaged, path)
	}
	n := d.kids.get(name)
	if n == nil {
		name = strings.Clone(name) // or the node holds the whole path
		n = &node{name: name, parent: d}
		d.adopt(n)
		x.count++
	} else if s.kind != tree.KindDir && n.kids != nil {
		x.drop(n.kids)
		n.kids = nil
	}
	n.stat = s
	if s.flags&linked != 0 {
		x.linked[n] = struct{}{}
	} else if len(x.linked) > 0 {
		delete(x.linked, n)
	}
	if s.flags&again != 0 {
		x.again[path] = struct{}{}
	}
	x.noteRaw(n)
	return nil
}

// noteRaw takes a node that has its name and stat to raw, or out of it.
func (x *index) noteRaw(n *node) {
	_, was := x.raw[n]
	is := n.stat.flags&rawTarget != 0
	if !is && rawname.Has(n.name) {
		_, plain := rawname.Plain(n.name)
		is = !plain
	}
	switch {
	case is:
		x.raw[n] = struct{}{}
	case was:
		delete(x.raw, n)
	}
	x.rawMoved = x.rawMoved || is != was
}

// rawPaths are the topmost paths that are not UTF-8, or of links to what is not, in order.
func (x *index) rawPaths() []string {
	var list []string
	for n := range x.raw {
		if _, plain := rawname.Plain(n.parent.path()); plain {
			list = append(list, n.path())
		}
	}
	slices.Sort(list)
	return list
}

// remove forgets a path and all below it.
func (x *index) remove(path string) {
	n := x.find(path)
	if n == nil {
		return
	}
	if path == "" {
		x.drop(n.kids)
		n.kids = nil
		clear(x.again)
		return
	}
	x.dropNode(n)
	n.parent.disown(n.name)
	for p := range x.again {
		if slashpath.Within(p, path) {
			delete(x.again, p)
		}
	}
}

// move gives a node another path, where nothing is, in a directory that is there.
func (x *index) move(n *node, path string) {
	n.parent.disown(n.name)
	dir, name := slashpath.Split(path)
	n.name, n.parent = strings.Clone(name), x.find(dir) // the path is not kept for it
	n.parent.adopt(n)
	x.noteRaw(n)
	x.rawMoved = true
}

// adopt puts a node that has its name into a directory.
func (n *node) adopt(kid *node) {
	if n.kids == nil {
		n.kids = &kids{}
	}
	n.kids.put(kid)
}

// disown takes a name out of a directory that has it.
func (n *node) disown(name string) {
	if n.kids.cut(name); n.kids.len() == 0 {
		n.kids = nil
	}
}

// drop forgets what is known of some nodes and of all below them.
func (x *index) drop(kids *kids) {
	for n := range kids.all() {
		x.dropNode(n)
	}
}

func (x *index) dropNode(n *node) {
	x.count--
	if n.stat.flags&linked != 0 {
		delete(x.linked, n)
	}
	if _, raw := x.raw[n]; raw {
		delete(x.raw, n)
		x.rawMoved = true
	}
	x.drop(n.kids)
}

// each calls fn for what is below a node, each directory before its content.
func (n *node) each(fn func(*node)) {
	for k := range n.kids.all() {
		fn(k)
		k.each(fn)
	}
}

// sorted are the names in a directory, in order.
func (n *node) sorted() []string {
	list := make([]string, 0, n.kids.len())
	for k := range n.kids.all() {
		list = append(list, k.name)
	}
	slices.Sort(list)
	return list
}

// readAgain marks the files that old marks as to be read again. It finds them by identity,
// because they may have another path in old.
func (x *index) readAgain(old *index) {
	ids := map[identity]struct{}{}
	old.root.each(func(n *node) {
		if n.stat.kind == tree.KindFile && n.stat.flags&again != 0 {
			ids[identity{n.stat.dev, n.stat.ino}] = struct{}{}
		}
	})
	if len(ids) == 0 {
		return
	}
	x.root.each(func(n *node) {
		if _, ok := ids[identity{n.stat.dev, n.stat.ino}]; ok && n.stat.kind == tree.KindFile {
			n.stat.flags |= again
		}
	})
}

// load reads the rows of a root.
func (x *index) load(rows Rows, root int64) error {
	return rows.DiskStats(root, func(path string, b []byte) error {
		s, err := decodeStat(b)
		if err != nil {
			return err
		}
		return x.put(path, s)
	})
}
