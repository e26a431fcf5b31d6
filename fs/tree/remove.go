package tree

import iofs "io/fs"

// Remove removes what has a name, not what a link leads to. A directory that is not
// empty goes with all that is below it if recursive is true.
func (e *Edit) Remove(path string, recursive bool) error {
	e.begin()
	path, err := Clean(path)
	if err != nil {
		return at("remove", path, err)
	}
	if path == "/" {
		return at("remove", path, iofs.ErrPermission)
	}
	s, err := e.res.existing(path, false)
	if err != nil {
		return at("remove", path, err)
	}
	if s.node.Kind == KindDir && !recursive {
		list, err := e.tx.Children(s.node.Ino, "", 1)
		if err == nil && len(list) > 0 {
			err = ErrNotEmpty
		}
		if err != nil {
			return at("remove", path, err)
		}
	}
	return at("remove", path, e.remove(&s, true))
}

// Forget removes a file or link, or a directory with all that is below it, and leaves no
// tomb: it is for trees that no peer has a cursor of.
func (e *Edit) Forget(path string) error {
	e.begin()
	s, err := e.res.existing(path, false)
	if err == nil {
		err = e.remove(&s, false)
	}
	return at("forget", path, err)
}

// remove takes away what is at a spot, and with tombs true notes that it is gone.
func (e *Edit) remove(s *spot, tombs bool) error {
	if err := e.disturb(s.dir, &s.node); err != nil {
		return err
	}
	gone := []Child{{Name: s.name, Node: s.node}}
	paths := []string{s.path}
	if s.node.Kind == KindDir {
		e.res.forget()
		// What a move is about must not go before its tombs are written.
		if err := e.settleAll(); err != nil {
			return err
		}
		err := below(e.tx, s.node.Ino, s.path, func(path string, c *Child) error {
			gone, paths = append(gone, *c), append(paths, path)
			return nil
		})
		if err != nil {
			return err
		}
	}
	rev, err := e.mint()
	if err != nil {
		return err
	}
	if err := e.leavesAll(gone, paths); err != nil {
		return err
	}
	for i := range gone {
		if tombs {
			t := Tomb{Path: paths[i], Rev: rev, Prior: fingerprint(&gone[i].Node)}
			if err := e.tx.PutTomb(e.ns.ID, t); err != nil {
				return err
			}
		}
		if err := e.unname(&gone[i]); err != nil {
			return err
		}
	}
	if s.node.Kind == KindDir {
		e.gone = s.path
	}
	return nil
}

// leavesAll notes where content is that the tree is about to lose with some nodes.
func (e *Edit) leavesAll(list []Child, paths []string) error {
	if !e.atHome() {
		return nil
	}
	var inos []int64
	parts := map[int64][]Part{}
	for i := range list {
		n := &list[i].Node
		if _, twice := parts[n.Ino]; n.Kind == KindFile && !twice {
			inos, parts[n.Ino] = append(inos, n.Ino), nil
		}
	}
	err := e.tx.PartsOf(inos, func(ino int64, p Part) error {
		parts[ino] = append(parts[ino], p)
		return nil
	})
	if err != nil {
		return err
	}
	for i := range list {
		if n := &list[i].Node; n.Kind == KindFile && !n.Stub {
			e.leaves(paths[i], parts[n.Ino], n.Manifest, true)
		}
	}
	return nil
}

// atHome reports whether the tree is that of the directory.
func (e *Edit) atHome() bool {
	home := e.tree.forest.home
	return home != nil && e.tree.name == home.Tree()
}

// leaves is leavesAll for a file with some content.
func (e *Edit) leaves(path string, parts []Part, print Hash, removed bool) {
	for i, p := range parts {
		if _, known := e.left[p.Hash]; !known && len(e.left) < maxListed {
			e.left[p.Hash] = listed{path, int64(i) * ChunkSize, p.Size}
		}
	}
	if e.changing != nil {
		e.changing(path, parts, print, removed)
	}
}

// unname removes a name, and its node if that was the last one. Directories are empty by
// then, or all below them goes as well.
func (e *Edit) unname(c *Child) error {
	if err := e.tx.DeleteName(c.Parent, c.Name.Name); err != nil {
		return err
	}
	n := c.Node
	if n.Links > 1 {
		// Another name of it may have gone in the same call.
		var err error
		if n, err = e.tx.Node(n.Ino); err != nil {
			return err
		}
	}
	if n.Links > 1 {
		n.Links--
		return e.tx.PutNode(&n)
	}
	e.count(&n, -1)
	return e.tx.DeleteNode(n.Ino)
}

// Rename gives what has one name another: it moves links themselves. It replaces a file
// or link by a file or link, and an empty directory by a directory. Nothing below a
// directory is touched.
func (e *Edit) Rename(from, to string) error {
	e.begin()
	from, err := Clean(from)
	if err != nil {
		return at("rename", from, err)
	}
	if to, err = Clean(to); err != nil {
		return at("rename", to, err)
	}
	if from == "/" || to == "/" {
		return at("rename", "/", iofs.ErrPermission)
	}
	src, err := e.res.existing(from, false)
	if err != nil {
		return at("rename", from, err)
	}
	dst, err := e.res.walk(to, false)
	if err != nil {
		return at("rename", to, err)
	}
	return at("rename", to, e.rename(&src, &dst))
}

func (e *Edit) rename(src, dst *spot) error {
	if dst.ok && dst.node.Ino == src.node.Ino {
		return nil // the same path, or two names of one file
	}
	if err := checkLengths(dst.path); err != nil {
		return err
	}
	isDir := src.node.Kind == KindDir
	if isDir && dst.dir.in(src.node.Ino) {
		return ErrInvalid
	}
	if err := e.makeWay(isDir, dst); err != nil {
		return err
	}
	// Both directories change; what is moved does not.
	if err := e.disturb(src.dir, nil); err != nil {
		return err
	}
	if err := e.disturb(dst.dir, nil); err != nil {
		return err
	}
	rev, err := e.mint()
	if err != nil {
		return err
	}
	if err := e.tx.DeleteName(src.name.Parent, src.name.Name); err != nil {
		return err
	}
	err = e.putName(Name{Parent: dst.dir.ino, Name: dst.name.Name, Child: src.node.Ino, Namespace: e.ns.ID, Rev: rev})
	if err != nil {
		return err
	}
	if !isDir {
		return e.tx.PutTomb(e.ns.ID, Tomb{Path: src.path, Rev: rev, Prior: fingerprint(&src.node)})
	}
	e.res.forget()
	if !e.synced {
		return nil // nobody knows the old paths
	}
	m := Move{Rev: rev, OldPath: src.path, Ino: src.node.Ino}
	e.moves = append(e.moves, m)
	return e.tx.PutMove(e.ns.ID, m)
}

// makeWay removes what is where something is moved to.
func (e *Edit) makeWay(isDir bool, dst *spot) error {
	switch {
	case !dst.ok:
		return nil
	case isDir && dst.node.Kind != KindDir:
		return ErrNotDirectory
	case !isDir && dst.node.Kind == KindDir:
		return ErrIsDirectory
	case isDir:
		list, err := e.tx.Children(dst.node.Ino, "", 1)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			return ErrNotEmpty
		}
	}
	return e.remove(dst, false)
}
