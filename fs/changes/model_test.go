package changes_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A step is one of a plan: a change on a side, a session, or what befalls the server.
type step struct {
	Do        string
	Args      []string
	Server    bool // on which side
	PullFirst bool
	Only      string // "push" or "pull" for half a session
	Cut       int    // the line is cut after so many calls and items, -1 for never
	Late      bool
	Dies      int    // the server (or the host) dies after so many updates, -1 for never
	DiesHost  int    // likewise
	During    []step // changes between the calls of a session
}

func (s step) String() string {
	side := "host"
	if s.Server {
		side = "server"
	}
	if s.Do != "sync" {
		return fmt.Sprint(side, " ", s.Do, " ", strings.Join(s.Args, " "))
	}
	return fmt.Sprintf("sync %s pullFirst=%t cut=%d/%t dies=%d/%d during=%v", s.Only, s.PullFirst, s.Cut, s.Late, s.Dies, s.DiesHost, s.During)
}

var (
	drawName = rapid.SampledFrom([]string{"a", "b", "\uFF5E", "\U0001F600", "\U0010FEE9"})
	drawPath = rapid.Custom(func(t *rapid.T) string {
		return "/" + strings.Join(rapid.SliceOfN(drawName, 1, 3).Draw(t, "path"), "/")
	})
	drawChange = rapid.Custom(func(t *rapid.T) step {
		s := step{Server: rapid.Bool().Draw(t, "server"), Args: []string{drawPath.Draw(t, "path")}}
		s.Do = rapid.SampledFrom([]string{"write", "write", "write", "mkdir", "rm", "rm", "mv", "mv", "chmod", "link", "replace"}).Draw(t, "verb")
		switch s.Do {
		case "write":
			s.Args = append(s.Args, rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "text"))
		case "mv":
			s.Args = append(s.Args, drawPath.Draw(t, "to"))
		case "chmod":
			s.Args = append(s.Args, rapid.SampledFrom([]string{"755", "700", "444"}).Draw(t, "mode"))
		case "link":
			s.Args = append(s.Args, rapid.SampledFrom([]string{"a", "/b", "..", "/a/b", "nowhere"}).Draw(t, "target"))
		}
		return s
	})
	drawFault = rapid.OneOf(rapid.Just(-1), rapid.IntRange(0, 25))
	drawSync  = rapid.Custom(func(t *rapid.T) step {
		return step{
			Do: "sync", PullFirst: rapid.Bool().Draw(t, "pull first"), Only: rapid.SampledFrom([]string{"", "", "push", "pull"}).Draw(t, "only"),
			Cut: drawFault.Draw(t, "cut"), Late: rapid.Bool().Draw(t, "late"),
			Dies:     rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 2, 5}).Draw(t, "dies"),
			DiesHost: rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 2, 5}).Draw(t, "host dies"),
			During:   rapid.SliceOfN(drawChange, 0, 3).Draw(t, "during"),
		}
	})
	drawFate = rapid.Custom(func(t *rapid.T) step {
		return step{Do: rapid.SampledFrom([]string{"settle", "settle", "copy", "older", "lost", "collect"}).Draw(t, "fate")}
	})
	drawPlan = rapid.Custom(func(t *rapid.T) plan {
		return plan{
			Style: rapid.SampledFrom([]string{oldStyle, newStyle, packStyle}).Draw(t, "style"),
			Block: rapid.IntRange(1, 5).Draw(t, "block"),
			Steps: rapid.SliceOfN(rapid.OneOf(drawChange, drawChange, drawChange, drawSync, drawFate), 1, 30).Draw(t, "steps"),
		}
	})
)

type plan struct {
	Style string
	Block int
	Steps []step
}

// TestModel runs random plans: two trees change, with sessions between them that are cut,
// die and lose answers; the server's store is lost, or an older copy of it comes back. Whenever
// they are then left alone, both must become the same; what changed on one side only is as
// that side had it (so nothing is lost, and nothing deleted comes back); and the cursors
// only go back when a store did.
func TestModel(t *testing.T) {
	n := "2000"
	if raceEnabled {
		n = "150"
	}
	withChecks(t, n)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan.Draw(rt, "plan")
		if err := play(t, p, func() tree.Store { return tree.NewMemory() }); err != nil {
			rt.Fatalf("%v\n%s, blocks of %d\n%v", err, p.Style, p.Block, p.Steps)
		}
	})
}

// withChecks sets how many plans rapid tries.
func withChecks(t testing.TB, n string) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	was := f.Value.String()
	if was != f.DefValue {
		return // somebody asked for another number
	}
	if err := f.Value.Set(n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Value.Set(was); err != nil {
			t.Error(err)
		}
	})
}

// A world is both sides.
type world struct {
	testing.TB
	open   func() tree.Store
	server *end
	host   *host
	// stores are what is below the ends, and outlives them.
	serverStore, hostStore tree.Store
	copy                   tree.Store // an older copy of the server's
	// touched is what changed on a side since both were the same: path to what it became
	// there, "" when it went.
	touched map[bool]map[string]string
	fetch   tree.Cursor // the server's, the last time we looked
	stores  int64
	now     time.Time
	// onDisk makes changes of the server in its directory, see disk_test.go; it is nil for
	// a server that has none. Both sides' paths are below root then.
	onDisk func(step) error
	root   string
}

func play(t testing.TB, p plan, open func() tree.Store) error {
	w := &world{TB: t, open: open, serverStore: open(), hostStore: tree.NewMemory(), now: time.Unix(1_800_000_000, 0)}
	w.host = &host{style: p.Style, block: p.Block}
	w.forget()
	w.start(-1, -1)
	for i, s := range p.Steps {
		if err := w.step(s); err != nil {
			return fmt.Errorf("step %d, %v: %w", i, s, err)
		}
	}
	if err := w.settle(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return errors.Join(w.server.forest.Check(context.Background()), w.host.forest.Check(context.Background()))
}

func (w *world) forget() {
	w.touched = map[bool]map[string]string{true: {}, false: {}}
}

// start starts both processes, which die after so many updates.
func (w *world) start(server, host int) {
	if w.onDisk == nil {
		first := 1 + w.stores*1000 // a new store counts from above the earlier ones
		w.server = w.end(&mortal{w.serverStore, server}, first)
	}
	w.host.end = w.end(&mortal{w.hostStore, host}, 1)
}

func (w *world) end(store *mortal, first int64) *end {
	e := &end{TB: w, store: store, now: w.now}
	e.forest = tree.New(store, tree.Config{Now: func() time.Time { return w.now }, FirstRev: first})
	left := store.left
	store.left = -1
	var err error
	if e.tree, err = e.forest.Tree(context.Background(), tree.DefaultName); err != nil {
		w.Fatal(err)
	}
	e.Server = changes.New(changes.Config{Workspace: changes.Plain(e.forest, e.tree)})
	if _, err := e.Watermarks(context.Background(), false); err != nil { // somebody may have a cursor
		w.Fatal(err)
	}
	store.left = left
	return e
}

func (w *world) step(s step) error {
	switch s.Do {
	case "sync":
		return w.session(s)
	case "settle":
		return w.settle()
	case "collect":
		w.now = w.now.Add(90 * time.Minute)
		for _, e := range []*end{w.server, w.host.end} {
			if _, err := e.forest.Collect(context.Background(), tree.Policy{Grace: -1}); err != nil {
				return err
			}
		}
		return nil
	case "copy":
		w.copy = w.open()
		copyTo(w, w.serverStore, w.copy)
		return nil
	case "older":
		if w.copy == nil {
			return nil
		}
		w.serverStore = w.open()
		copyTo(w, w.copy, w.serverStore)
		return w.restored()
	case "lost":
		w.stores++
		w.serverStore, w.copy = w.open(), nil
		return w.restored()
	}
	return w.change(s)
}

// restored is a server whose store went back: what is known only of its past is void, and
// the host comes back before the server does something else.
func (w *world) restored() error {
	w.start(-1, -1)
	w.forget()
	w.fetch = tree.Cursor{}
	return w.host.connect(context.Background(), w.server)
}

// change makes one change, and notes what became different by it.
func (w *world) change(s step) error {
	e := w.host.end
	if s.Server {
		e = w.server
	}
	before := e.all()
	var err error
	for i := range s.Args {
		if strings.HasPrefix(s.Args[i], "/") {
			s.Args = slices.Clone(s.Args)
			s.Args[i] = w.root + s.Args[i]
		}
	}
	if s.Server && w.onDisk != nil {
		err = w.onDisk(s)
	} else if s.Do == "replace" { // a file in the place of whatever is there
		if err = e.change("rm", s.Args); err == nil {
			err = e.change("write", s.Args)
		}
	} else {
		err = e.change(s.Do, s.Args)
	}
	if err != nil && tree.Code(err) == "" {
		return err
	}
	after, changed := e.all(), map[string]string{}
	for path, what := range after {
		if before[path] != what {
			changed[path] = what
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			changed[path] = ""
		}
	}
	maps.Copy(w.touched[s.Server], changed)
	// What the other side had done there is over, whether it was known here or not.
	maps.DeleteFunc(w.touched[!s.Server], func(path, _ string) bool { return near(changed, path) })
	return w.void()
}

// void forgets what is in conflict: what has changed on one side, and was not taken by
// the other, when that has a change at the path, or above or below it, that was not taken
// either. Who of them wins is a matter of who comes last. Both sides list what they were
// sent among their own changes (but for what a host of the new style acknowledges).
func (w *world) void() error {
	if len(w.touched[true])+len(w.touched[false]) == 0 {
		return nil
	}
	p, err := w.host.peer(context.Background())
	if err != nil {
		return err
	}
	open := map[bool]map[string]string{}
	for server, e := range map[bool]*end{true: w.server, false: w.host.end} {
		after := p.Push
		if server {
			after = p.Fetch
		}
		c, err := e.tree.Changes(context.Background(), tree.ChangesQuery{After: after})
		if err != nil {
			return err
		}
		open[server] = map[string]string{}
		for entry, err := range c.All(context.Background()) {
			if err != nil {
				return err
			}
			open[server][entry.Path] = ""
		}
	}
	for server, paths := range w.touched {
		maps.DeleteFunc(paths, func(path, _ string) bool {
			_, mine := open[server][path]
			return mine && near(open[!server], path)
		})
	}
	return nil
}

// alive lets a function use the stores whether their processes have died or not.
func (w *world) alive(fn func() error) error {
	for _, e := range []*end{w.server, w.host.end} {
		m, ok := e.store.(*mortal)
		if !ok {
			continue // it does not die
		}
		left := m.left
		m.left = -1
		defer func() { m.left = left }()
	}
	return fn()
}

// session is a session in which things go wrong.
func (w *world) session(s step) error {
	if err := w.void(); err != nil {
		return err
	}
	w.start(s.Dies, s.DiesHost)
	during := s.During
	l := &line{to: &acknowledged{Server: w.server.Server, w: w}, left: s.Cut, late: s.Late}
	var failed error
	l.then = func() {
		failed = errors.Join(failed, w.alive(func() error {
			if len(during) == 0 {
				return w.void()
			}
			next := during[0]
			during = during[1:]
			return w.change(next)
		}))
	}
	ctx := context.Background()
	var err error
	switch s.Only {
	case "push":
		if err = w.host.connect(ctx, l); err == nil {
			err = w.host.push(ctx, l)
		}
	case "pull":
		if err = w.host.connect(ctx, l); err == nil {
			err = w.host.pull(ctx, l)
		}
	default:
		err = w.host.sync(ctx, l, s.PullFirst)
	}
	w.start(-1, -1)
	// In a directory, what is overwritten in the middle of a session is not to be had in this one.
	overwritten := w.onDisk != nil && len(s.During) > 0 && errors.Is(err, tree.ErrUnknownHash)
	if err != nil && !overwritten && !errors.Is(err, errCut) && !errors.Is(err, errDead) {
		return err
	}
	return errors.Join(failed, w.checkCursor())
}

func (w *world) checkCursor() error {
	at := w.server.marks().Fetch
	if at.Compare(w.fetch) < 0 {
		return fmt.Errorf("the fetch cursor went from %v to %v", w.fetch, at)
	}
	w.fetch = at
	return nil
}

// settle leaves both alone for some sessions.
func (w *world) settle() error {
	w.start(-1, -1)
	if err := w.void(); err != nil {
		return err
	}
	for i := range 3 {
		if err := w.host.sync(context.Background(), w.server, i == 1); err != nil {
			return err
		}
	}
	if err := w.checkCursor(); err != nil {
		return err
	}
	a, b := w.server.all(), w.host.all()
	if !maps.Equal(a, b) {
		return fmt.Errorf("the server has\n%v, the host\n%v", a, b)
	}
	for _, server := range []bool{true, false} {
		for path, want := range w.touched[server] {
			if a[path] != want {
				return fmt.Errorf("%s was changed to %q (by the server: %t), and is %q", path, want, server, a[path])
			}
		}
	}
	w.forget()
	// One more session has nothing to say: no change goes to and fro for ever.
	revs := [2]int64{w.server.marks().CurrentRev, w.host.marks().CurrentRev}
	if err := w.host.sync(context.Background(), w.server, false); err != nil {
		return err
	}
	if again := [2]int64{w.server.marks().CurrentRev, w.host.marks().CurrentRev}; again != revs {
		return fmt.Errorf("with nothing to do the revisions went from %v to %v", revs, again)
	}
	return nil
}

// near reports whether a path, one above it or one below it was changed.
func near(touched map[string]string, path string) bool {
	for q := range touched {
		if q == path || strings.HasPrefix(q, path+"/") || strings.HasPrefix(path, q+"/") {
			return true
		}
	}
	return false
}

// acknowledged is a server of which each push that it acknowledges is checked at once.
type acknowledged struct {
	*changes.Server
	w *world
}

func (a *acknowledged) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	var sent []tree.Entry
	out, err := a.Server.Push(ctx, in, changes.Map(entries, func(e tree.Entry) (tree.Entry, error) {
		sent = append(sent, e)
		return e, nil
	}))
	if err != nil {
		return out, err
	}
	for i := range sent {
		e := &sent[i]
		got, err := a.ReadEntry(ctx, e.Path)
		if err != nil {
			return out, err
		}
		if e.Kind != tree.KindDelete && (got == nil || tree.Fingerprint(got) != tree.Fingerprint(e)) {
			return out, fmt.Errorf("%s was acknowledged as %+v, and is %+v", e.Path, e, got)
		}
	}
	return out, nil
}
