package disk

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// errUnreadable says that a version cannot be read, and so not be kept elsewhere.
var errUnreadable = errors.New("it cannot be read")

// save keeps a version of a file or link that nobody has settled and that is about to go,
// one that a crash has left if no file has it. The end of the call does not stop it: the file
// may have a temporary name already. It returns the manifest of what the file has.
func (b *bringer) save(dir int, name string, it *item, was found) (*tree.Hash, error) {
	ctx := context.WithoutCancel(b.ctx)
	entry, err := b.w.version(ctx, dir, name, &keeper{ctx: ctx, forest: b.w.cfg.Forest})
	if gone(err) || errors.Is(err, errSpecial) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	print := tree.ManifestOf(entry.Parts)
	by := it.fingerprint()
	if tree.Fingerprint(&entry) == by {
		return &print, nil
	}
	if had := b.printOf(it, &was); entry.Kind == tree.KindFile && had != nil && *had == print && was.mode != nil && uint32(*was.mode) == entry.Mode {
		return &print, nil // the tree had the same, of another time
	}
	v := lost.Version{Path: b.w.treePath(it.path), At: time.Now(), Why: lost.Overtaken, By: by, Entry: entry}
	kept := true
	if _, err := b.w.cfg.Tree.Update(ctx, func(e *tree.Edit) error {
		if was.left {
			if known, err := referenced(e, v.Path, &entry); known || err != nil {
				kept = false
				return err
			}
		}
		return lost.Keep(e, &v)
	}); err != nil || !kept {
		return &print, err
	}
	v.Entry.Path = v.Path
	b.mu.Lock()
	b.overtaken = append(b.overtaken, v)
	b.mu.Unlock()
	b.w.stats.overtaken.Add(1)
	b.w.log.Info("a file was changed while an entry for it arrived; that version is kept", "path", it.path, "version", v.ID, "size", entry.Size)
	return &print, nil
}

// referenced reports whether the tree has a version at its path, or another file with its
// content. That the store holds the content says less: a look that was cut short may have
// stored it and recorded nothing.
func referenced(e *tree.Edit, path string, v *tree.Entry) (bool, error) {
	at, err := e.Entry(path)
	if err != nil && tree.Code(err) == "" {
		return false, err
	}
	if err == nil && at.Kind == v.Kind && at.Target == v.Target && slices.Equal(at.Parts, v.Parts) {
		return true, nil
	}
	if v.Kind != tree.KindFile || len(v.Parts) != 1 {
		return false, nil
	}
	return e.Tx().Referenced(v.Parts[0].Hash)
}

// version reads a file or link, and gives its content to keep if that is not nil. What is ours is
// read whatever its mode.
func (w *Workspace) version(ctx context.Context, dir int, name string, keep *keeper) (tree.Entry, error) {
	st, err := statOthers(dir, name)
	if err != nil {
		return tree.Entry{}, err
	}
	entry := tree.Entry{Kind: st.kind, Mode: uint32(st.mode), MTime: time.Unix(0, st.mtime)}
	switch st.kind {
	case tree.KindSymlink:
		entry.Target, err = readlinkAt(dir, name)
		return entry, err
	case tree.KindFile:
	default:
		return entry, errSpecial
	}
	got, err := w.readFile(ctx, dir, name, keep)
	if denied(err) {
		err = fmt.Errorf("%w: %w", errUnreadable, err)
	}
	entry.Size, entry.Parts = got.size, got.parts
	return entry, err
}

// aside gives something that is neither known nor can be kept as a version, such as a directory
// with others' files, a name beside its path. It is settled there like any other.
func (b *bringer) aside(dir int, name, path string) error {
	base := slashpath.Base(path)
	for range asideAttempts {
		mark := ".conflict-" + randomHex(4)
		to := tree.Shorten(base, len(mark)) + mark
		err := renameNew(dir, name, to)
		if errors.Is(err, errNoExchange) {
			err = rename(dir, name, to)
		}
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err == nil {
			b.w.log.Warn("something that nobody has settled was in the way of an entry; it has another name now", "path", path, "name", to)
		}
		return pathError("rename", path, err)
	}
	return pathError("rename", path, unix.EEXIST)
}

// beingWritten reports whether somebody has a file open for writing, or may have.
func (w *Workspace) beingWritten(dir int, name string) bool {
	return w.fault("busy", name) != nil || beingWritten(dir, name)
}

// openOut is beingWritten, and returns the file open, -1 if it is not.
func (w *Workspace) openOut(dir int, name string) (fd int, written bool) {
	fd, written = openAsking(dir, name)
	return fd, w.fault("busy", name) != nil || written
}

// busy reports whether somebody has a file open for writing, after it has waited for a
// moment for that to end. All waits of a bringer together are bounded. What was there may
// then have changed without a trace: through a mapping.
func (b *bringer) busy(dir int, name string, was *found) bool {
	return b.w.beingWritten(dir, name) && b.waitWritten(dir, name, was)
}

// waitWritten is busy for a file that somebody had open for writing just now.
func (b *bringer) waitWritten(dir int, name string, was *found) bool {
	was.racy = true
	b.mu.Lock()
	defer b.mu.Unlock()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for b.waits < maxWaits {
		b.waits++
		<-tick.C
		if !b.w.beingWritten(dir, name) {
			return false
		}
	}
	return true
}

// An outgoing is a version that has left its path while somebody had it open for writing.
type outgoing struct {
	name string // in the workspace's directory
	it   *item  // in whose favour
	was  found
}

// putOff leaves a version under its temporary name, in the workspace's own directory, until
// nobody writes to it any more. The store has what is known of it, for as long.
func (w *Workspace) putOff(ctx context.Context, dir, root int, out string, it *item, was found) error {
	w.outMu.Lock()
	w.outs = append(w.outs, outgoing{out, it, was})
	w.outMu.Unlock()
	w.storeOuts(ctx)
	if err := renameTo(dir, out, root, out); err != nil {
		w.outMu.Lock()
		defer w.outMu.Unlock()
		w.outs = slices.DeleteFunc(w.outs, func(o outgoing) bool { return o.name == out })
		return pathError("rename", it.path, err)
	}
	return nil
}

// A storedOut is an outgoing version as the row of the directory has it.
type storedOut struct {
	Path  string `json:"path"`
	By    string `json:"by,omitempty"` // the print of what took its place
	Stat  []byte `json:"stat"`
	Known bool   `json:"known,omitempty"`
	Racy  bool   `json:"racy,omitempty"`
	// Print is the manifest of what the tree had, "" if that is not known, Mode its mode.
	Print string  `json:"print,omitempty"`
	Mode  *uint16 `json:"mode,omitempty"`
}

// storeOuts stores which versions are put off. Should that not be possible, one of them may be
// kept under its last name only, after a crash.
func (w *Workspace) storeOuts(ctx context.Context) {
	_, err := w.cfg.Tree.Update(context.WithoutCancel(ctx), func(e *tree.Edit) error {
		rows, err := rowsOf(e.Tx())
		if err != nil {
			return err
		}
		s := w.state
		s.Outs = nil
		w.outMu.Lock()
		for _, o := range w.outs {
			if s.Outs == nil {
				s.Outs = map[string]storedOut{}
			}
			stored := storedOut{Path: o.it.path, By: o.it.fingerprint(), Stat: o.was.stat.encode(), Known: o.was.known, Racy: o.was.racy, Mode: o.was.mode}
			if o.was.print != nil {
				stored.Print = o.was.print.String()
			}
			s.Outs[o.name] = stored
		}
		w.outMu.Unlock()
		return w.putState(rows, s)
	})
	if err != nil {
		w.log.WarnContext(ctx, "the paths of versions that are still open for writing cannot be stored", "err", err)
	}
}

// loadOuts takes up versions that were put off by a process before this one.
func (w *Workspace) loadOuts(root int) {
	for name, o := range w.state.Outs {
		st, err := decodeStat(o.Stat)
		if err != nil || !isOut(name) {
			continue // it is taken for what a crash has left
		}
		if _, err := statAt(root, name); gone(err) {
			name = newsName(name) // or it is gone
		}
		it := &item{path: o.Path, kind: tree.KindDelete, print: o.By}
		was := found{there: true, stat: st, known: o.Known, racy: o.Racy, mode: o.Mode}
		var print tree.Hash
		if b, err := hex.DecodeString(o.Print); err == nil && copy(print[:], b) == len(print) {
			was.print = &print
		}
		w.outs = append(w.outs, outgoing{name, it, was})
	}
}

// finishOuts disposes of versions that were put off and that nobody writes to any more.
// Those that cannot be kept now are tried again.
func (w *Workspace) finishOuts(ctx context.Context, root int) {
	if len(w.outs) == 0 {
		return
	}
	list := w.outs
	w.outs = nil
	done := false
	b := newBringer(ctx, w, root, nil)
	defer b.walk.forget()
	for _, o := range list {
		if !w.beingWritten(root, o.name) {
			var err error
			if o.name, err = b.discard(root, o.name, o.it, o.was); err == nil || gone(err) {
				done = true
				continue
			}
			w.log.Warn("a version that a command wrote cannot be kept yet", "path", o.it.path, "name", o.name, "err", err)
		}
		w.outs = append(w.outs, o)
	}
	if done {
		w.storeOuts(ctx)
	}
}

// isPutOff reports whether a temporary name in the workspace's own directory is of a version
// that was put off.
func (w *Workspace) isPutOff(name string) bool {
	return slices.ContainsFunc(w.outs, func(o outgoing) bool { return o.name == name })
}
