package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

// A bench is one run.
type bench struct {
	scale    scale
	trees    []*tree
	observed *tree // the one that is watched, if any
	tools    []*tool
	dir      string
	begin    time.Time
	progress io.Writer

	taken []*round
	turn  int // counts measurements, so that no tool is always the first
	results
}

// A round is a tree once, with a pair of each tool.
type round struct {
	tree  *tree
	dir   string
	here  string
	pairs map[*tool]*pair
	moves int // how many times the directory was renamed
}

// A change is done to a tree before the tools bring it. It returns what it was.
type change struct {
	name string
	do   func(b *bench, r *round) (what string, err error)
}

// Changes are in this order, since the last one deletes.
var changes = []change{
	{"no-op", func(*bench, *round) (string, error) { return "no-op", nil }},
	{"one change", func(b *bench, r *round) (string, error) { return "one change", r.append(1) }},
	{"many changes", func(b *bench, r *round) (string, error) {
		n, err := r.files("")
		if err != nil {
			return "", err
		}
		n = min(n*4/5, b.scale.changes)
		return fmt.Sprintf("%d small changes", n), r.append(n)
	}},
	{"rename", func(_ *bench, r *round) (string, error) {
		n, err := r.files(r.moved())
		if err != nil {
			return "", err
		}
		from := r.moved()
		r.moves++
		return fmt.Sprintf("rename of %d files", n), os.Rename(filepath.Join(r.here, from), filepath.Join(r.here, r.moved()))
	}},
	{"delete", func(_ *bench, r *round) (string, error) {
		n, err := r.files(r.moved())
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("delete of %d files", n), os.RemoveAll(filepath.Join(r.here, r.moved()))
	}},
}

// moved is the directory that is renamed, under its name of now.
func (r *round) moved() string { return r.tree.moved + strings.Repeat("-moved", r.moves) }

func (r *round) files(below string) (int, error) {
	l, err := list(filepath.Join(r.here, below))
	return len(l.paths), err
}

func (r *round) append(n int) error {
	l, err := list(r.here)
	if err != nil {
		return err
	}
	return appendTo(r.here, l.paths, n, "// one more line\n")
}

// run takes all figures. The trees are brought first, all of them, before any file is
// changed, and files are deleted last. Rounds for which the budget leaves no time are left
// out.
func (b *bench) run(ctx context.Context) error {
	defer b.close()
	for n := 0; ; n++ {
		some := false
		for _, t := range b.trees {
			if n >= t.rounds || n > 0 && b.late(0.4) {
				continue
			}
			some = true
			if err := b.cold(ctx, t, n); err != nil {
				return err
			}
		}
		if !some {
			break
		}
	}
	if err := b.watch(ctx); err != nil {
		return err
	}
	last := len(changes) - 1
	if err := b.bring(ctx, changes[:last], 0.7); err != nil {
		return err
	}
	return b.bring(ctx, changes[last:], 0.9)
}

// bring does changes to the first round of each tree, then to the second and so on until a
// share of the budget has passed.
func (b *bench) bring(ctx context.Context, changes []change, share float64) error {
	for n := 0; ; n++ {
		some := false
		for _, t := range b.trees {
			rounds := b.of(t)
			for _, c := range changes {
				if n >= len(rounds) || n > 0 && b.late(share) {
					continue
				}
				some = true
				if err := b.change(ctx, rounds[n], c); err != nil {
					return err
				}
			}
		}
		if !some {
			return nil
		}
	}
}

// late reports whether a share of the budget has passed.
func (b *bench) late(share float64) bool {
	return time.Since(b.begin) > time.Duration(share*float64(b.scale.budget))
}

// of lists the rounds of a tree.
func (b *bench) of(t *tree) (rounds []*round) {
	for _, r := range b.taken {
		if r.tree == t {
			rounds = append(rounds, r)
		}
	}
	return rounds
}

func (b *bench) close() {
	for _, r := range b.taken {
		for _, p := range r.pairs {
			b.drop(r.pairs, p)
		}
	}
}

// drop ends a pair.
func (b *bench) drop(pairs map[*tool]*pair, p *pair) {
	if err := p.close(); err != nil {
		b.note("%s: %v", p.tool.name, err)
	}
	delete(pairs, p.tool)
}

// order lists the tools, another one first each time.
func (b *bench) order() []*tool {
	b.turn++
	n := b.turn % len(b.tools)
	return append(append([]*tool{}, b.tools[n:]...), b.tools[:n]...)
}

// coldPush is the name of the first case.
const coldPush = "cold push"

// cold makes a tree and has each tool bring it to where nothing is.
func (b *bench) cold(ctx context.Context, t *tree, n int) error {
	r, l, err := b.plant(t, fmt.Sprintf("%d-%d", n, len(b.taken)))
	if err != nil {
		return err
	}
	b.taken = append(b.taken, r)
	b.size(t, l)
	for _, tool := range b.order() {
		p, err := openPair(ctx, tool, r.here, filepath.Join(r.dir, tool.name), false)
		if err != nil {
			b.failed(ctx, t, coldPush, tool, err)
		} else {
			r.pairs[tool] = p
			b.measure(ctx, r, p, coldPush, coldPush, l)
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// plant makes a tree in a directory of its own.
func (b *bench) plant(t *tree, name string) (*round, *listing, error) {
	r := &round{tree: t, dir: filepath.Join(b.dir, name), pairs: map[*tool]*pair{}}
	r.here = filepath.Join(r.dir, "here")
	b.tell("make %s", t.name)
	if err := errors.Join(os.MkdirAll(r.here, 0o755), t.make(r.here)); err != nil {
		return nil, nil, fmt.Errorf("make %s: %w", t.name, err)
	}
	l, err := list(r.here)
	return r, l, err
}

// change changes a tree and has each tool bring that.
func (b *bench) change(ctx context.Context, r *round, c change) error {
	what, err := c.do(b, r)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	l, err := list(r.here)
	if err != nil {
		return err
	}
	for _, tool := range b.order() {
		if p := r.pairs[tool]; p != nil {
			b.measure(ctx, r, p, c.name, what, l)
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// measure has a pair bring what changed, and looks at what has come.
func (b *bench) measure(ctx context.Context, r *round, p *pair, name, what string, want *listing) {
	b.tell("%s, %s: %s", r.tree.name, what, p.tool.name)
	err := target.Flush(b.dir)
	var c cost
	if err == nil {
		c, err = p.sync(ctx, name == coldPush, b.scale.limit)
	}
	if err == nil {
		err = want.same(r.here, p.there)
	}
	if err != nil {
		// It would do the next case from another state than the others.
		b.drop(r.pairs, p)
		b.failed(ctx, r.tree, what, p.tool, err)
		return
	}
	b.add(r.tree, name, what, p.tool, c)
}

// turnSamples is about how many files are written each way before it is another tool's turn.
const turnSamples = 10

// watch lets each tool watch the tree of equal files in turn.
func (b *bench) watch(ctx context.Context) error {
	t := b.observed
	if t == nil {
		return nil
	}
	pairs := map[*tool]*pair{}
	defer func() {
		for _, p := range pairs {
			b.drop(pairs, p)
		}
	}()
	draw := rand.New(rand.NewPCG(seed, seed))
	for turn := range max(1, b.scale.samples/turnSamples) {
		for _, tool := range b.order() {
			if !tool.watches || turn > 0 && (pairs[tool] == nil || b.late(0.6)) {
				continue
			}
			b.tell("%s, watch: %s", t.name, tool.name)
			var err error
			if turn == 0 {
				pairs[tool], err = b.watching(ctx, t, tool)
			}
			if err == nil {
				err = watchTurn(ctx, pairs[tool], draw, min(turnSamples, b.scale.samples), b.watched(tool))
			}
			if err != nil {
				b.failed(ctx, t, "watch", tool, err)
				if p := pairs[tool]; p != nil {
					b.drop(pairs, p)
				}
			}
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// failed notes what a tool could not do, unless the whole run is over.
func (b *bench) failed(ctx context.Context, t *tree, what string, tool *tool, err error) {
	if ctx.Err() == nil {
		b.note("%s, %s: %s: %v", t.name, what, tool.name, err)
	}
}

// watching makes a tree for one tool that watches, since what is written on its other side
// comes there.
func (b *bench) watching(ctx context.Context, t *tree, tool *tool) (*pair, error) {
	r, _, err := b.plant(t, "watch-"+tool.name)
	if err != nil {
		return nil, err
	}
	p, err := openPair(ctx, tool, r.here, r.dir, true)
	return p, errors.Join(err, target.Flush(b.dir))
}

// tell says what is being done.
func (b *bench) tell(format string, args ...any) {
	fmt.Fprintf(b.progress, "%4.0f s  %s\n", time.Since(b.begin).Seconds(), fmt.Sprintf(format, args...))
}
