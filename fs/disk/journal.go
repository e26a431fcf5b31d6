package disk

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A page is some rows of the journal.
type page struct {
	ids   []int64
	items []*item // with path and purge
	last  bool    // the journal has no rows behind it
}

var errPageFull = errors.New("that is enough")

// A journalRow is a row of the journal that was just written, with how many entries it has.
type journalRow struct {
	id      int64
	entries int
}

// writtenPage takes the next of the rows that the plan has just written. They need not be read back.
func (p *plan) writtenPage() page {
	var out page
	for len(p.journal) > 0 && len(out.items) < p.w.limits.page {
		out.ids = append(out.ids, p.journal[0].id)
		for range p.journal[0].entries {
			if i := p.taken - len(p.printed); i < 0 {
				path := p.printed[p.taken]
				p.w.knowPrint(path, p.leaving[path].print)
			} else {
				_, purge := p.purged[p.order[i]]
				out.items = append(out.items, &item{path: p.order[i], purge: purge})
			}
			p.taken++
		}
		p.journal = p.journal[1:]
	}
	out.last = len(p.journal) == 0
	return out
}

// journalPage returns the next rows of the journal behind a row.
func (w *Workspace) journalPage(ctx context.Context, after int64) (page, error) {
	var p page
	err := w.cfg.Tree.View(ctx, func(tx tree.Tx) error {
		p = page{}
		rows, err := rowsOf(tx)
		if err != nil {
			return err
		}
		err = rows.DiskJournal(w.root.ID, after, func(id int64, paths []byte) error {
			if len(p.items) >= w.limits.page {
				return errPageFull
			}
			p.ids = append(p.ids, id)
			eachOfRow(paths, func(path string, purge bool) {
				p.items = append(p.items, &item{path: path, purge: purge})
			}, w.knowPrint)
			return nil
		})
		if p.last = err == nil; errors.Is(err, errPageFull) {
			err = nil
		}
		return err
	})
	return p, err
}

// note stores what was brought, and that the journal's rows of a page are done with, but
// for paths that are stuck. The index has all of it already, so the end of ctx changes
// nothing.
func (w *Workspace) note(ctx context.Context, b *bringer, p page) error {
	again := b.stuck.left(p)
	stuck := make(map[string]stuckPath, len(again))
	for path := range again {
		stuck[path] = b.stuck.paths[path]
	}
	if len(stuck) > 0 {
		for path, l := range b.leaving {
			if !l.last && isStuck(stuck, path) {
				w.knowPrint(path, l.print)
			}
		}
	}
	var drop []int64
	var late released
	_, err := w.cfg.Tree.Update(context.WithoutCancel(ctx), func(e *tree.Edit) error {
		rows, err := rowsOf(e.Tx())
		if err != nil {
			return err
		}
		for _, path := range b.removed {
			if err := rows.DeleteDiskStats(w.root.ID, path); err != nil {
				return err
			}
		}
		list := make([]Row, 0, len(b.done))
		for _, path := range b.done {
			if n := w.index.find(path); n != nil {
				list = append(list, Row{path, n.stat.encode()})
			}
		}
		if err := rows.PutDiskStats(w.root.ID, list); err != nil {
			return err
		}
		if drop, late, err = b.release(e, p.last); err != nil {
			return err
		}
		if err := rows.DeleteDiskJournal(w.root.ID, p.ids); err != nil {
			return err
		}
		left := &journalWriter{w: w, rows: rows}
		for path, print := range w.prints { // before the paths, so that they are known when those are tried
			if isStuck(stuck, path) {
				if err := left.addPrint(path, print); err != nil {
					return err
				}
			}
		}
		for path, purge := range again {
			if err := left.add(path, purge); err != nil {
				return err
			}
		}
		return left.flush()
	})
	if err == nil {
		b.stuck.journaled(again)
		b.later.add(&late)
		for _, number := range drop {
			w.home.Drop(number)
		}
	}
	if err != nil {
		w.stale = true // the index is ahead of the rows
		w.home.lends(b.items)
	}
	return err
}

// A journalWriter adds paths to the journal, in rows of a limited size.
type journalWriter struct {
	w       *Workspace
	rows    Rows
	row     []byte
	entries int // of row
	written []journalRow
}

func (j *journalWriter) add(path string, purge bool) error {
	why := byte('=')
	if purge {
		why = '-'
	}
	return j.put(why, path)
}

// addPrint adds the manifest of what the index has at a path: see Workspace.prints.
func (j *journalWriter) addPrint(path string, print tree.Hash) error {
	return j.put('#', print.String()+path)
}

func (j *journalWriter) put(why byte, text string) error {
	j.row = append(append(append(j.row, why), text...), 0)
	j.entries++
	if len(j.row) < j.w.limits.journal {
		return nil
	}
	return j.flush()
}

func (j *journalWriter) flush() error {
	if len(j.row) == 0 {
		return nil
	}
	id, err := j.rows.AddDiskJournal(j.w.root.ID, j.row)
	j.written = append(j.written, journalRow{id, j.entries})
	j.row, j.entries = j.row[:0], 0
	return err
}

// eachOfRow calls fn for the paths of a row of the journal, and print for what it says of files that
// the tree had.
func eachOfRow(row []byte, fn func(path string, purge bool), print func(path string, print tree.Hash)) {
	for s := range strings.SplitSeq(string(row), "\x00") {
		switch {
		case s == "":
		case s[0] != '#':
			fn(s[1:], s[0] == '-')
		default:
			var h tree.Hash
			if n := 1 + 2*len(h); len(s) > n {
				if _, err := hex.Decode(h[:], []byte(s[1:n])); err == nil {
					print(s[n:], h)
				}
			}
		}
	}
}

// knowPrint notes what the tree had at a path, unless it is known.
func (w *Workspace) knowPrint(path string, print tree.Hash) {
	if w.prints == nil {
		w.prints = map[string]tree.Hash{}
	}
	if _, known := w.prints[path]; !known {
		w.prints[path] = print
	}
}
