package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// An end is a tree in memory, with the workspace and server of it.
type end struct {
	t      tb
	clock  *time.Time
	forest *tree.Forest
	tree   *tree.Tree
	ws     changes.Workspace
	server *changes.Server
}

// tb is what *testing.T and *rapid.T have.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// aWhile is the time between two changes.
const aWhile = time.Second

func newEnd(t tb, first int64) *end {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	e := &end{t: t, clock: &now}
	return e.open(tree.NewMemory(), first)
}

// open starts the end on a store.
func (e *end) open(store tree.Store, first int64) *end {
	e.forest = tree.New(store, tree.Config{Now: func() time.Time { return *e.clock }, FirstRev: first})
	var err error
	if e.tree, err = e.forest.Tree(context.Background(), tree.DefaultName); err != nil {
		e.t.Fatalf("open a tree: %v", err)
	}
	e.ws = changes.Plain(e.forest, e.tree)
	e.server = changes.New(changes.Config{Workspace: e.ws, DefaultIgnore: []string{}})
	return e
}

func (*end) context() context.Context { return context.Background() }

// line is what there is at a path, "" for nothing.
func (e *end) line(path string) string {
	for _, l := range e.list() {
		if strings.HasPrefix(l, path+" ") {
			return l
		}
	}
	return ""
}

func (e *end) tick() { *e.clock = e.clock.Add(aWhile) }

// do runs a line of a script: see its cases.
func (e *end) do(lines ...string) {
	e.t.Helper()
	for _, line := range lines {
		e.tick()
		if err := e.run(line); err != nil {
			e.t.Fatalf("%s: %v", line, err)
		}
	}
}

func (e *end) run(line string) error {
	ctx := context.Background()
	f := strings.Fields(line)
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	switch f[0] {
	case "write": // PATH TEXT
		_, err := e.tree.WriteFile(ctx, arg(1), strings.NewReader(arg(2)), tree.File{MTime: *e.clock})
		return err
	case "big": // PATH LETTER CHUNKS: full chunks and one byte
		text := bytes.Repeat([]byte(arg(2)), len(arg(3))*tree.ChunkSize+1)
		_, err := e.tree.WriteFile(ctx, arg(1), bytes.NewReader(text), tree.File{MTime: *e.clock})
		return err
	}
	_, err := e.tree.Update(ctx, func(ed *tree.Edit) error {
		switch f[0] {
		case "mkdir":
			return ed.Mkdir(arg(1), 0o755, true)
		case "rm":
			return ed.Remove(arg(1), true)
		case "mv":
			return ed.Rename(arg(1), arg(2))
		case "ln":
			return ed.Symlink(arg(1), arg(2))
		case "chmod": // PATH OCTAL
			var mode uint32
			if _, err := fmt.Sscanf(arg(2), "%o", &mode); err != nil {
				return err
			}
			return ed.Chmod(arg(1), mode)
		}
		return errors.New("no such command")
	})
	return err
}

// list is the tree as lines, without the names that are ignored.
func (e *end) list(ignore ...string) []string {
	e.t.Helper()
	var out []string
	var files []tree.FileInfo
	err := e.tree.Walk(context.Background(), "/", func(i *tree.FileInfo) error {
		if i.Path == "/" {
			return nil
		}
		if hidden(i.Path, ignore) {
			if i.Kind == tree.KindDir {
				return iofs.SkipDir
			}
			return nil
		}
		switch i.Kind {
		case tree.KindDir:
			out = append(out, fmt.Sprintf("%s/ %o", i.Path, i.Mode))
		case tree.KindSymlink:
			out = append(out, i.Path+" -> "+i.Target)
		default:
			files = append(files, *i)
		}
		return nil
	})
	if err != nil {
		e.t.Fatalf("walk: %v", err)
	}
	for _, i := range files {
		text, err := e.tree.ReadFile(context.Background(), i.Path, 1<<30)
		if err != nil {
			e.t.Fatalf("read %s: %v", i.Path, err)
		}
		if len(text) > 64 {
			text = fmt.Appendf(nil, "%d bytes %s", len(text), tree.Sum(text))
		}
		out = append(out, fmt.Sprintf("%s %o %s", i.Path, i.Mode, text))
	}
	sort.Strings(out)
	return out
}

// want compares the tree with lines.
func (e *end) want(lines ...string) {
	e.t.Helper()
	if diff := cmp.Diff(lines, e.list()); diff != "" {
		e.t.Errorf("tree (-want +got):\n%s", diff)
	}
}

// check holds the store against its invariants.
func (e *end) check() {
	e.t.Helper()
	if err := e.forest.Check(context.Background()); err != nil {
		e.t.Errorf("check: %v", err)
	}
}

// A world is two ends and a mirror of the local one.
type world struct {
	t             tb
	local, remote *end
	cfg           Config
	m             *Mirror
	conflicts     []string
	limits        *limits // of the mirror, if they are others
}

func newWorld(t tb, cfg Config) *world {
	t.Helper()
	w := &world{t: t, local: newEnd(t, 100), remote: newEnd(t, 1000), cfg: cfg}
	// The remote's clock is a little ahead.
	*w.remote.clock = w.remote.clock.Add(aWhile / 2)
	w.restart()
	return w
}

// inStep is a world both sides of which have what lines do.
func inStep(t tb, cfg Config, lines ...string) *world {
	t.Helper()
	w := newWorld(t, cfg)
	w.local.do(lines...)
	w.sync()
	return w
}

// again synchronises a few times, each time with a new mirror.
func (w *world) again() {
	w.t.Helper()
	for range 3 {
		w.restart()
		w.sync()
	}
}

// restart makes the mirror anew, as after a crash.
func (w *world) restart() {
	cfg := w.cfg
	cfg.Local = w.local.ws
	if cfg.Remote == nil {
		cfg.Remote = w.remote.server
	}
	cfg.Conflict = func(c Conflict) { w.conflicts = append(w.conflicts, conflictLine(c)) }
	w.m = New(cfg)
	if w.limits != nil {
		w.m.limits = *w.limits
	}
}

// smallBlocks has the mirror move few entries at once.
func (w *world) smallBlocks() {
	l := standard
	l.entries, l.plain = smallEntries, smallEntries
	w.limits = &l
	w.restart()
}

const smallEntries = 2000

func conflictLine(c Conflict) string {
	line := fmt.Sprintf("%s: %s / %s, kept %s", c.Path, shown(c.Local), shown(c.Remote), c.Kept)
	if c.By != "" {
		line += " by " + c.By
	}
	if c.Copy != "" {
		line += " copy " + c.Copy
	}
	return line
}

func shown(v Version) string {
	if v.Kind == tree.KindFile {
		return "file " + v.Hash[:4]
	}
	return v.Kind.String()
}

func (w *world) sync() Result {
	w.t.Helper()
	r, err := w.m.Sync(context.Background())
	if err != nil {
		w.t.Fatalf("sync: %v", err)
	}
	if !r.InStep {
		w.t.Errorf("not in step: %+v", r)
	}
	return r
}

// same wants both trees to be the same.
func (w *world) same() {
	w.t.Helper()
	if diff := cmp.Diff(w.local.list(w.cfg.Ignore...), w.remote.list(w.cfg.Ignore...)); diff != "" {
		w.t.Errorf("trees (-local +remote):\n%s", diff)
	}
	w.local.check()
	w.remote.check()
}

// rest wants nothing to move any more.
func (w *world) rest() {
	w.t.Helper()
	w.same()
	info, _ := w.local.tree.Info(context.Background())
	there, _ := w.remote.tree.Info(context.Background())
	r := w.sync()
	r.InStep = false
	if !reflect.DeepEqual(r, Result{}) {
		w.t.Errorf("a sync at rest moved %+v", r)
	}
	info2, _ := w.local.tree.Info(context.Background())
	there2, _ := w.remote.tree.Info(context.Background())
	if info != info2 || there != there2 {
		w.t.Errorf("a sync at rest changed %+v to %+v, %+v to %+v", info, info2, there, there2)
	}
}

// wantConflicts compares the conflicts since the last time.
func (w *world) wantConflicts(lines ...string) {
	w.t.Helper()
	got := w.conflicts
	w.conflicts = nil
	if diff := cmp.Diff(lines, got); diff != "" {
		w.t.Errorf("conflicts (-want +got):\n%s", diff)
	}
}

// hash is how the version of a file with a text is shown.
func hash(text string) string {
	m := tree.ManifestOf([]tree.Part{{Hash: tree.Sum([]byte(text)), Size: int64(len(text))}})
	return "file " + m.String()[:4]
}

var _ tb = (*testing.T)(nil)

// sortLines sorts as list does.
func sortLines(l []string) { sort.Strings(l) }
