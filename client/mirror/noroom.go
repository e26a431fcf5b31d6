package mirror

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// noRoom has the local paths whose content the remote has had no room for in a call of the mirror. They
// are changes still, and the next call sends them again.
type noRoom struct {
	mu    sync.Mutex
	paths map[string]struct{}
}

// forget forgets what an earlier call has found.
func (n *noRoom) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paths = nil
}

func (n *noRoom) add(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paths == nil {
		n.paths = map[string]struct{}{}
	}
	n.paths[path] = struct{}{}
}

func (n *noRoom) has(path string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, is := n.paths[path]
	return is
}

// skipped names the paths.
func (n *noRoom) skipped() []changes.Skipped {
	n.mu.Lock()
	defer n.mu.Unlock()
	return withoutRoom(slices.Sorted(maps.Keys(n.paths)))
}

// withoutRoom names paths for which there is no room.
func withoutRoom(all []string) (list []changes.Skipped) {
	if len(all) == 0 {
		return nil
	}
	s := changes.Skipped{Why: changes.Unwritten, Count: len(all)}
	for _, path := range all[:min(len(all), changes.MaxSkipped)] {
		s.Paths = append(s.Paths, changes.SkippedPath{Path: path, Error: syscall.ENOSPC.Error()})
	}
	return append(list, s)
}

// leaveRefused leaves entries out of a block whose content the remote has no room for.
func (m *Mirror) leaveRefused(b *block, full map[tree.Hash]bool) {
	for _, e := range b.leaveOut(full) {
		path, _ := m.roots.toLocal(e.Path)
		m.full.add(path)
		b.refused = append(b.refused, path)
		delete(b.holds, path)
	}
}

// sendFitting sends content of entries as far as the remote has room for it, that of the smallest files
// first. full takes the hashes of what does not fit.
func (m *Mirror) sendFitting(ctx context.Context, hashes []tree.Hash, entries []tree.Entry, gone, full map[tree.Hash]bool, sent func(bytes int)) error {
	send := func(hashes []tree.Hash) error {
		var sizes []int
		err := m.sendObjects(ctx, hashes, entries, gone, func(bytes int) { sizes = append(sizes, bytes) })
		if changes.Code(err) != changes.CodeNoRoom { // else it is thrown away there
			for _, n := range sizes {
				sent(n)
			}
		}
		return err
	}
	return fitting(hashes, entries, full, send,
		func(some []tree.Hash) ([]tree.Hash, error) { return m.lackingThere(ctx, some) },
		func(err error) bool { return changes.Code(err) == changes.CodeNoRoom })
}

// fitting moves content of entries as far as there is room for it, that of the smallest files first. full
// takes the hashes of what does not fit.
func fitting(hashes []tree.Hash, entries []tree.Entry, full map[tree.Hash]bool, move func([]tree.Hash) error, lacking func([]tree.Hash) ([]tree.Hash, error), isFull func(error) bool) error {
	err := move(hashes)
	if !isFull(err) {
		return err
	}
	files := filesOf(hashes, entries)
	for n := (len(files) + 1) / 2; len(files) > 0; n = min(n, len(files)) {
		var some []tree.Hash
		for _, f := range files[:n] {
			some = append(some, f.hashes...)
		}
		some, err := lacking(some) // some of it may have been kept
		if err == nil && len(some) > 0 {
			err = move(some)
		}
		switch {
		case err == nil:
			files = files[n:]
		case !isFull(err):
			return err
		case n > 1:
			n /= 2
		default: // nor is there for what is larger
			for _, f := range files {
				for _, h := range f.hashes {
					full[h] = true
				}
			}
			return nil
		}
	}
	return nil
}

// fetchFitting gets the content of a batch as far as there is room for it here. Entries with other content
// are held as lacking, and named.
func (m *Mirror) fetchFitting(ctx context.Context, b *batch, gone map[tree.Hash]bool, r *Result) error {
	full := map[tree.Hash]bool{}
	err := fitting(b.objects, b.entries, full,
		func(some []tree.Hash) error { return m.fetchAll(ctx, some, b.entries, gone, r) },
		func(some []tree.Hash) ([]tree.Hash, error) { return m.lackingHere(ctx, some) },
		tree.NoRoom)
	if err != nil || len(full) == 0 {
		return err
	}
	for i := range b.entries {
		if e := &b.entries[i]; isGone(e, full) {
			if b.lacking == nil {
				b.lacking = map[string]bool{}
			}
			b.lacking[e.Path] = true
			m.fullHere.add(e.Path)
		}
	}
	return nil
}

// content is what is to be sent of a file.
type content struct {
	hashes []tree.Hash
	bytes  int64
}

// filesOf gives content to the files that it is of, each to the smallest that has it. The smallest come
// first.
func filesOf(hashes []tree.Hash, entries []tree.Entry) []content {
	left := make(map[tree.Hash]bool, len(hashes))
	for _, h := range hashes {
		left[h] = true
	}
	order := slices.Clone(entries)
	slices.SortStableFunc(order, func(a, b tree.Entry) int { return cmp.Compare(a.Size, b.Size) })
	var files []content
	for i := range order {
		var c content
		for _, p := range order[i].Parts {
			if left[p.Hash] {
				delete(left, p.Hash)
				c.hashes = append(c.hashes, p.Hash)
				c.bytes += p.Size
			}
		}
		if len(c.hashes) > 0 {
			files = append(files, c)
		}
	}
	slices.SortStableFunc(files, func(a, b content) int { return cmp.Compare(a.bytes, b.bytes) })
	return files
}

// onlyRefused reports whether all that is to be sent was refused in this call, so that it is not to be sent
// again in it.
func (m *Mirror) onlyRefused(ctx context.Context) (bool, error) {
	m.full.mu.Lock()
	none := len(m.full.paths) == 0
	m.full.mu.Unlock()
	if none {
		return false, nil
	}
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{After: m.s.peer.Push, Ignore: m.filter.names})
	if err != nil {
		return false, err
	}
	for e, err := range list.All(ctx) {
		if err != nil || !m.full.has(e.Path) && !m.s.notes.Pulled.has(e.Rev) {
			return false, err
		}
	}
	return true, nil
}
