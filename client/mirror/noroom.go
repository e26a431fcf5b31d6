package mirror

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// withoutRoom names paths for which a side has no room, each with the reason.
func withoutRoom(all []string, among *waiting) (list []changes.Skipped) {
	if len(all) == 0 {
		return nil
	}
	s := changes.Skipped{Why: changes.Unwritten, Count: len(all)}
	for _, path := range all[:min(len(all), changes.MaxSkipped)] {
		s.Paths = append(s.Paths, changes.SkippedPath{Path: path, Error: among.reason(path).Error()})
	}
	return append(list, s)
}

// noRoomReason is the system's reason in an error that says that there is no room. The wire has one name for all
// reasons, so that of a remote is found by the text that its error ends with.
func noRoomReason(err error) syscall.Errno {
	for _, reason := range []syscall.Errno{syscall.EFBIG, syscall.EDQUOT} {
		if errors.Is(err, reason) || strings.HasSuffix(err.Error(), ": "+reason.Error()) {
			return reason
		}
	}
	return syscall.ENOSPC
}

// A noRoom has hashes of content for which a side has no room, with its errors.
type noRoom map[tree.Hash]error

// of returns the error about the content of an entry, nil if there is room for it.
func (full noRoom) of(e *tree.Entry) error {
	for _, p := range e.Parts {
		if err := full[p.Hash]; err != nil {
			return err
		}
	}
	return nil
}

// leaveRefused leaves entries out of a block whose content the remote has no room for.
func (m *Mirror) leaveRefused(b *block, full noRoom) {
	for _, e := range b.leaveOut(func(e *tree.Entry) bool { return full.of(e) != nil }) {
		m.leave(b, &e, &m.full)
		path, _ := m.roots.toLocal(e.Path)
		m.full.explain(path, full.of(&e))
	}
}

// leave notes that an entry was left out of a block, and waits.
func (m *Mirror) leave(b *block, e *tree.Entry, among *waiting) {
	path, _ := m.roots.toLocal(e.Path)
	among.add(path, tree.Fingerprint(e))
	b.refused = append(b.refused, path)
	delete(b.holds, path)
}

// leaveWaiting leaves entries out of a block that wait since a moment ago.
func (m *Mirror) leaveWaiting(b *block) {
	left := 0
	for _, among := range []*waiting{&m.full, &m.unread} {
		if among.none() {
			continue
		}
		out := b.leaveOut(func(e *tree.Entry) bool {
			path, _ := m.roots.toLocal(e.Path)
			return among.still(path, tree.Fingerprint(e))
		})
		for i := range b.entries {
			path, _ := m.roots.toLocal(b.entries[i].Path)
			among.drop(path) // it is another version
		}
		for i := range out {
			m.leave(b, &out[i], among)
		}
		left += len(out)
	}
	if left == 0 {
		return
	}
	needed := map[tree.Hash]bool{}
	for _, h := range hashesOf(b.entries, allParts) {
		needed[h] = true
	}
	b.objects = slices.DeleteFunc(b.objects, func(h tree.Hash) bool { return !needed[h] })
}

// leaveTooLarge leaves the entry out of a block for which the remote had no room when it applied them, and
// reports whether there was one.
func (m *Mirror) leaveTooLarge(b *block, err error) bool {
	path := changes.Path(err)
	if changes.Code(err) != changes.CodeNoRoom || path == "" {
		return false
	}
	out := b.leaveOut(func(e *tree.Entry) bool { return e.Path == path && e.Kind == tree.KindFile })
	for i := range out {
		m.leave(b, &out[i], &m.full)
		local, _ := m.roots.toLocal(path)
		m.full.explain(local, err)
	}
	return len(out) > 0
}

// sendFitting sends content of entries as far as the remote has room for it, that of the smallest files
// first. full takes the hashes of what does not fit.
func (m *Mirror) sendFitting(ctx context.Context, hashes []tree.Hash, entries []tree.Entry, gone map[tree.Hash]bool, full noRoom, sent func(bytes int)) error {
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
func fitting(hashes []tree.Hash, entries []tree.Entry, full noRoom, move func([]tree.Hash) error, lacking func([]tree.Hash) ([]tree.Hash, error), isFull func(error) bool) error {
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
					full[h] = err
				}
			}
			return nil
		}
	}
	return nil
}

// fetchFitting gets content of a batch as far as there is room for it here. Entries with other content
// are held as lacking, and named.
func (m *Mirror) fetchFitting(ctx context.Context, b *batch, hashes []tree.Hash, gone map[tree.Hash]bool, r *Result) error {
	full := noRoom{}
	if err := m.fetchSome(ctx, hashes, b.entries, gone, full, r); err != nil || len(full) == 0 {
		return err
	}
	for i := range b.entries {
		if e := &b.entries[i]; full.of(e) != nil {
			m.leaveHere(b, e, full.of(e))
		}
	}
	return nil
}

// fetchSome gets content of entries as far as there is room for it here. full takes the hashes of what does not fit.
func (m *Mirror) fetchSome(ctx context.Context, hashes []tree.Hash, entries []tree.Entry, gone map[tree.Hash]bool, full noRoom, r *Result) error {
	return fitting(hashes, entries, full,
		func(some []tree.Hash) error { return m.fetchAll(ctx, some, entries, gone, r) },
		func(some []tree.Hash) ([]tree.Hash, error) { return m.lackingHere(ctx, some) },
		tree.NoRoom)
}

// leaveHere has an entry of a batch wait, for which there is no room here.
func (m *Mirror) leaveHere(b *batch, e *tree.Entry, err error) {
	b.lack(e.Path)
	m.fullHere.add(e.Path, "")
	m.fullHere.explain(e.Path, err)
}

// leaveUnfitting has the entries of a batch wait for which there was no room when they were applied, and
// reports whether there were some.
func (m *Mirror) leaveUnfitting(b *batch, err error) bool {
	if _, applied := errors.AsType[*changes.PendingError](err); applied || changes.Code(err) != changes.CodeNoRoom {
		return false
	}
	left, paths := false, map[string]bool{}
	for _, path := range changes.Paths(err) {
		paths[path] = true
	}
	for i := range b.entries {
		if e := &b.entries[i]; paths[e.Path] && e.Kind == tree.KindFile && !b.lacking[e.Path] {
			m.leaveHere(b, e, err)
			left = true
		}
	}
	return left
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

// onlyWaiting reports whether all that is to be sent waits since a moment ago, so that it is not to be sent
// now.
func (m *Mirror) onlyWaiting(ctx context.Context) (bool, error) {
	if m.full.none() && m.unread.none() && m.fullHere.none() {
		return false, nil
	}
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{After: m.s.peer.Push, Ignore: m.filter.names})
	if err != nil {
		return false, err
	}
	for e, err := range list.All(ctx) {
		if err != nil {
			return false, err
		}
		print := tree.Fingerprint(&e)
		waits := m.full.still(e.Path, print) || m.unread.still(e.Path, print) || m.fullHere.still(e.Path, print)
		if !waits && !m.s.notes.Pulled.has(e.Rev) {
			return false, nil
		}
	}
	return true, nil
}
