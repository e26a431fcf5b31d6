package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

var errKilled = errors.New("killed")

// A desk is a workspace with a directory as package fs/disk has one, in which somebody writes
// at any time: what is written is in the tree once it is settled, and overtaken when an entry
// comes to its place before.
type desk struct {
	*end
	changes.Workspace                   // of the tree alone
	unseen            map[string]string // contents by path that nobody has settled
	// before is called once, just before a batch is decided, and during when it is and none of
	// it is on disk yet; killed has the process die at that moment.
	before  func()
	during  func()
	killed  bool
	journal []string // paths that are to be brought to the directory
}

func (d *desk) Settle(ctx context.Context) error {
	if _, err := d.bring(ctx); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(d.unseen)) {
		if _, err := d.tree.WriteFile(ctx, path, strings.NewReader(d.unseen[path]), tree.File{MTime: *d.clock}); err != nil {
			return err
		}
		delete(d.unseen, path)
	}
	return nil
}

// bring brings the journal to the directory.
func (d *desk) bring(ctx context.Context) ([]lost.Version, error) {
	var out []lost.Version
	for _, path := range d.journal {
		text, ok := d.unseen[path]
		if !ok {
			continue
		}
		parts, err := d.forest.Stage(ctx, strings.NewReader(text))
		if err != nil {
			return nil, err
		}
		v := lost.Version{Path: path, At: *d.clock, Why: lost.Overtaken, Entry: tree.Entry{
			Kind: tree.KindFile, Path: path, Mode: 0o644, MTime: *d.clock, Size: int64(len(text)), Parts: parts,
		}}
		var stays bool
		_, err = d.tree.Update(ctx, func(e *tree.Edit) error {
			by, err := e.Entry(path)
			if stays = err != nil || by.Kind == tree.KindDelete; stays {
				return nil // a removal takes what it knows
			}
			if v.By = tree.Fingerprint(&by); v.By == tree.Fingerprint(&v.Entry) {
				return nil
			}
			return lost.Keep(e, &v)
		})
		if err != nil {
			return nil, err
		}
		if stays {
			continue
		}
		delete(d.unseen, path)
		if v.ID > 0 {
			out = append(out, v)
		}
	}
	d.journal = nil
	return out, nil
}

func (d *desk) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	if fn := d.before; fn != nil {
		d.before = nil
		fn()
	}
	if err := d.Settle(ctx); err != nil {
		return changes.Applied{}, err
	}
	var paths []string
	done, err := d.Workspace.Apply(ctx, func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
		paths = nil
		return func(yield func(tree.Entry, error) bool) {
			for entry, err := range entries(e) {
				paths = append(paths, entry.Path)
				if !yield(entry, err) {
					return
				}
			}
		}
	}, how, also)
	if err != nil {
		return done, err
	}
	d.journal = paths
	if fn := d.during; fn != nil {
		d.during = nil
		fn()
	}
	if d.killed {
		d.killed = false
		return changes.Applied{}, errKilled
	}
	done.Overtaken, err = d.bring(ctx)
	return done, err
}

// text is what somebody at the desk sees at a path, "" for nothing.
func (d *desk) text(path string) string {
	if text, ok := d.unseen[path]; ok {
		return text
	}
	text, err := d.tree.ReadFile(context.Background(), path, 100)
	if err != nil {
		return ""
	}
	return string(text)
}

// writers are two desks, with what became of each value that was written.
type writers struct {
	*world
	cut   *cutter
	desks [2]*desk
	live  map[string]string // what nobody has overwritten who saw it, with its path
	n     int
	log   []string
}

// change has somebody write a path, or remove it.
func (w *writers) change(side int, path string, remove bool) {
	d := w.desks[side]
	was := d.text(path)
	delete(w.live, was) // he sees it
	d.tick()
	w.log = append(w.log, fmt.Sprintf("%d %s: %q, remove %t", side, path, was, remove))
	if remove {
		if was != "" {
			if err := d.Settle(context.Background()); err != nil {
				w.t.Fatalf("settle: %v", err)
			}
			d.do("rm " + path)
		}
		return
	}
	w.n++
	text := fmt.Sprintf("v%d", w.n)
	w.live[text] = path
	d.unseen[path] = text
	w.log[len(w.log)-1] += " " + text
}

func (w *writers) write(side int, paths []string) {
	for _, path := range paths {
		w.change(side, path, false)
	}
}

// A turn is a step of a plan of writers.
type turn struct {
	What   string // "write", "remove", "tick", "restart"
	Side   int
	Path   string
	Left   int
	Answer bool
	Before [2][]string // paths that are written just before a batch is decided
	During [2][]string // and while it is brought
	Killed [2]bool     // then
}

func drawTurns(rt *rapid.T) []turn {
	path := rapid.SampledFrom([]string{"/a", "/b", "/d/a"})
	paths := rapid.SliceOfN(path, 0, 2)
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) turn {
		return turn{
			What:   rapid.SampledFrom([]string{"write", "write", "write", "remove", "tick", "tick", "tick", "restart"}).Draw(rt, "what"),
			Side:   rapid.IntRange(0, 1).Draw(rt, "side"),
			Path:   path.Draw(rt, "path"),
			Left:   rapid.SampledFrom([]int{-1, -1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24}).Draw(rt, "left"),
			Answer: rapid.Bool().Draw(rt, "answer"),
			Before: [2][]string{paths.Draw(rt, "before here"), paths.Draw(rt, "before there")},
			During: [2][]string{paths.Draw(rt, "during here"), paths.Draw(rt, "during there")},
			Killed: [2]bool{rapid.Bool().Draw(rt, "killed here"), rapid.Bool().Draw(rt, "killed there")},
		}
	}), 1, 20).Draw(rt, "plan")
}

func (w *writers) take(s *turn) error {
	switch s.What {
	case "write", "remove":
		w.change(s.Side, s.Path, s.What == "remove")
	case "restart":
		w.restart()
	case "tick":
		for side, d := range w.desks {
			d.before = func() { w.write(side, s.Before[side]) }
			d.during = func() {
				w.write(side, s.During[side])
				d.killed = s.Killed[side] && len(s.During[side]) > 0
			}
		}
		w.cut.set(s.Left, s.Answer)
		_, err := w.m.Tick(context.Background())
		w.cut.set(-1, false)
		var failed *ConflictError
		if err != nil && !errors.Is(err, errCut) && !errors.Is(err, errKilled) && !errors.As(err, &failed) {
			return err
		}
		for _, d := range w.desks {
			d.before, d.during = nil, nil
		}
		if errors.Is(err, errKilled) {
			w.restart()
		}
	}
	return nil
}

// account wants each value that nobody has knowingly overwritten to be in both trees, or
// among what is kept here and named in a conflict.
func (w *writers) account() error {
	w.cfg.OnConflict = w.decides()
	w.restart()
	w.sync()
	if a, b := w.local.list(), w.remote.list(); !slices.Equal(a, b) {
		return fmt.Errorf("local %q\nremote %q", a, b)
	}
	there := map[string]bool{}
	for _, l := range w.local.list() {
		if f := strings.Fields(l); len(f) == 3 {
			there[f[2]] = true
		}
	}
	kept := map[string]bool{}
	for _, l := range w.local.kept() {
		f := strings.Fields(l)
		kept[f[0]+" "+f[2]] = true
	}
	for text, path := range w.live {
		if there[text] {
			continue
		}
		if !kept[path+" "+text] {
			return fmt.Errorf("%s of %s is nowhere: local %q, kept %q, conflicts %q", text, path, w.local.list(), w.local.kept(), w.conflicts)
		}
		if !slices.ContainsFunc(w.conflicts, func(l string) bool { return strings.HasPrefix(l, path+":") }) {
			return fmt.Errorf("%s of %s is kept, and not named: %q", text, path, w.conflicts)
		}
	}
	w.local.check()
	w.remote.check()
	return nil
}

func (w *writers) decides() Policy {
	if w.cfg.OnConflict.decides() {
		return w.cfg.OnConflict
	}
	return Both
}

// Whatever two people write at the same time, at the moment at which changes are brought too,
// through cuts and kills of either end: each value is in the trees in the end, overwritten
// by somebody who saw it, or kept and named in a conflict. Nobody is stuck.
func TestTwoWriters(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				plan := drawTurns(rt)
				w := &writers{live: map[string]string{}, cut: &cutter{left: -1}}
				w.world = newWorld(rt, Config{OnConflict: policy, Remote: w.cut})
				for i, e := range []*end{w.local, w.remote} {
					d := &desk{end: e, Workspace: changes.Plain(e.forest, e.tree), unseen: map[string]string{}}
					e.ws, w.desks[i] = d, d
				}
				w.remote.server = changes.New(changes.Config{Workspace: w.remote.ws, DefaultIgnore: []string{}})
				w.cut.Peer = w.remote.server
				w.restart()
				for i := range plan {
					if err := w.take(&plan[i]); err != nil {
						rt.Fatalf("step %d %+v: %v", i, plan[i], err)
					}
				}
				if err := w.account(); err != nil {
					rt.Fatalf("%v\n%s", err, strings.Join(w.log, "\n"))
				}
			})
		})
	}
}
