package mirror

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A closing Workspace has paths that cannot be read. Edits of them are in the tree once they are opened.
type closing struct {
	changes.Workspace
	closed   map[string]tree.Kind
	edits    map[string]string // texts by path, at or below a closed path
	noCopies bool              // there is no room for copies of versions that lose
	replaced string            // an entry that took the place of an edit
}

// isClosed reports whether a path, or one above it, cannot be read.
func (c *closing) isClosed(path string) bool {
	for p := path; p != "/"; p = above(p) {
		if c.closed[p] != 0 {
			return true
		}
	}
	return false
}

func (c *closing) Skipped(keep func(string) bool) []changes.Skipped {
	s := changes.Skipped{Why: changes.Unreadable}
	for _, path := range slices.Sorted(maps.Keys(c.closed)) {
		if keep == nil || keep(path) {
			s.Count++
			s.Paths = append(s.Paths, changes.SkippedPath{Path: path, Error: "permission denied"})
		}
	}
	if s.Count == 0 {
		return nil
	}
	return []changes.Skipped{s}
}

func (c *closing) Unread() (out []tree.Entry) {
	for path, kind := range c.closed {
		if text, edited := c.edits[path]; edited || kind == tree.KindDir {
			out = append(out, tree.Entry{Path: path, Kind: kind, Size: int64(len(text))})
		}
	}
	return out
}

func (c *closing) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	return c.Workspace.Apply(ctx, func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
		return func(yield func(tree.Entry, error) bool) {
			full := ""
			for x, err := range entries(e) {
				if err == nil && c.noCopies && x.Kind == tree.KindFile && strings.Contains(x.Path, ".conflict-") {
					full = x.Path
					continue
				}
				if err == nil {
					c.check(e, &x)
				}
				if !yield(x, err) {
					return
				}
			}
			if full != "" {
				yield(tree.Entry{}, &changes.Error{Code: changes.CodeNoRoom, Path: full, Err: syscall.ENOSPC})
			}
		}
	}, how, also)
}

// check notes whether an entry takes the place of an edit.
func (c *closing) check(e *tree.Edit, x *tree.Entry) {
	if cur, err := e.Entry(x.Path); err == nil && same(&cur, x) {
		return
	}
	for path := range c.edits {
		below := strings.HasPrefix(path, x.Path+"/") && x.Kind != tree.KindDir
		if path == x.Path || below || strings.HasPrefix(x.Path, path+"/") {
			c.replaced = fmt.Sprintf("%s by %s of kind %s", path, x.Path, x.Kind)
		}
	}
}

// An unseenStep is something that is done at one of the sides, or by the mirror.
type unseenStep struct {
	What, Path, To string
	Long           bool
	Policy         Policy
}

func drawUnseenSteps(rt *rapid.T) []unseenStep {
	path := rapid.SampledFrom([]string{"/a", "/a", "/b", "/d/a", "/d/a", "/d/b", "/d", "/e/d/a"})
	what := rapid.SampledFrom([]string{
		"write", "write", "rm", "close", "close", "edit", "edit", "open", "there write", "there write", "there write", "there rm", "there mv",
		"sync", "sync", "sync", "sync", "resolve", "restart", "no room", "no copies", "room",
	})
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) unseenStep {
		return unseenStep{
			what.Draw(rt, "what"), path.Draw(rt, "path"), path.Draw(rt, "to"), rapid.Bool().Draw(rt, "long"),
			rapid.SampledFrom([]Policy{Fail, Hold, Ours, Both, Theirs}).Draw(rt, "policy"),
		}
	}), 5, 40).Draw(rt, "steps")
}

// An unseenPlay is a world in which a plan is carried out. live has the texts that must be somewhere in the end: a text leaves
// it once a step overwrites or removes the text at the side that has it.
type unseenPlay struct {
	*world
	ws     *closing
	remote *small
	live   map[string]bool
	n      int
}

// values are those at a path of an end, and below it.
func (p *unseenPlay) values(e *end, path string) (out []string) {
	for _, line := range e.list() {
		f := strings.Fields(line)
		if f[0] == path || strings.HasPrefix(f[0], path+"/") {
			out = append(out, f[len(f)-1])
		}
	}
	return out
}

// run has an end do something that overwrites what it has at a path.
func (p *unseenPlay) run(e *end, path, line, text string) {
	seen := p.values(e, path)
	e.tick()
	if e.run(line) != nil {
		return
	}
	for _, v := range seen {
		delete(p.live, v)
	}
	if text != "" {
		p.live[text] = true
	}
}

func (p *unseenPlay) value(s *unseenStep) string {
	p.n++
	text := fmt.Sprintf("v%d", p.n)
	if s.Long {
		text += strings.Repeat("x", 40)
	}
	return text
}

func (p *unseenPlay) open(path string) {
	delete(p.ws.closed, path)
	for _, edited := range slices.Sorted(maps.Keys(p.ws.edits)) {
		if !p.ws.isClosed(edited) {
			text := p.ws.edits[edited]
			delete(p.ws.edits, edited)
			p.local.do("write " + edited + " " + text)
		}
	}
}

// closedBelow reports whether something at or below a path is closed, or above it.
func (p *unseenPlay) closedBelow(path string) bool {
	for c := range p.ws.closed {
		if strings.HasPrefix(c, path+"/") {
			return true
		}
	}
	return p.ws.isClosed(path)
}

func (p *unseenPlay) step(s *unseenStep) error {
	ctx := context.Background()
	switch s.What {
	case "write":
		if text := p.value(s); !p.closedBelow(s.Path) {
			p.run(p.local, s.Path, "write "+s.Path+" "+text, text)
		}
	case "rm":
		if !p.closedBelow(s.Path) {
			p.run(p.local, s.Path, "rm "+s.Path, "")
		}
	case "close":
		if e, err := p.local.tree.Entry(ctx, s.Path); err == nil && e.Kind != tree.KindDelete && !p.closedBelow(s.Path) {
			p.ws.closed[s.Path] = e.Kind
		}
	case "edit":
		p.edit(s)
	case "open":
		p.open(s.Path)
	case "there write":
		text := p.value(s)
		p.run(p.world.remote, s.Path, "write "+s.Path+" "+text, text)
	case "there rm":
		p.run(p.world.remote, s.Path, "rm "+s.Path, "")
	case "there mv":
		if s.Path != s.To && len(p.values(p.world.remote, s.To)) == 0 {
			p.run(p.world.remote, s.To, "mv "+s.Path+" "+s.To, "")
		}
	case "sync", "resolve":
		policy := s.Policy
		if lacks := p.remote.roomHere > 0 || len(p.m.s.held.lacking()) > 0; lacks && policy == Ours {
			policy = Both // ours overwrites what there is no room for
		}
		p.cfg.OnConflict, p.m.cfg.OnConflict = policy, policy
		var err error
		if s.What == "sync" {
			_, err = p.m.Sync(ctx)
		} else if policy.decides() {
			_, err = p.m.Resolve(ctx, s.Path, policy)
		}
		var failed *ConflictError
		var notHeld *NotHeldError
		if err != nil && !errors.As(err, &failed) && !errors.As(err, &notHeld) {
			return err
		}
	case "restart":
		p.restart()
	case "no room":
		p.remote.roomHere = 20
	case "no copies":
		p.ws.noCopies = true
	case "room":
		p.remote.roomHere, p.ws.noCopies = 0, false
	}
	if p.ws.replaced != "" {
		return errors.New("an edit was replaced: " + p.ws.replaced)
	}
	return nil
}

// edit edits a path that is closed, or in a directory that is, which the one who edits it can read.
func (p *unseenPlay) edit(s *unseenStep) {
	text := p.value(s)
	at, err := p.local.tree.Entry(context.Background(), s.Path)
	there := err == nil && at.Kind != tree.KindDelete
	if !p.ws.isClosed(s.Path) || there && at.Kind == tree.KindDir {
		return
	}
	up, err := p.local.tree.Entry(context.Background(), above(s.Path))
	if above(s.Path) != "/" && (err != nil || up.Kind != tree.KindDir) {
		return
	}
	seen := p.values(p.local, s.Path)
	if old, edited := p.ws.edits[s.Path]; edited {
		seen = []string{old}
	}
	for _, v := range seen {
		delete(p.live, v)
	}
	p.ws.edits[s.Path], p.live[text] = text, true
}

func playUnseen(t tb, steps []unseenStep) error {
	p := &unseenPlay{live: map[string]bool{}}
	p.world = newWorld(t, Config{})
	p.ws = &closing{Workspace: p.local.ws, closed: map[string]tree.Kind{}, edits: map[string]string{}}
	p.local.ws = p.ws
	p.remote = &small{Server: p.world.remote.server, room: 1 << 30}
	p.cfg.Remote = p.remote
	p.restart()
	for _, path := range []string{"/a", "/d/a", "/d/b"} {
		if err := p.step(&unseenStep{What: "write", Path: path}); err != nil {
			return err
		}
	}
	for i := range steps {
		if err := p.step(&steps[i]); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	for _, path := range slices.Collect(maps.Keys(p.ws.closed)) {
		p.open(path)
	}
	p.remote.roomHere, p.ws.noCopies = 0, false
	for range 3 {
		p.restart()
		if err := p.step(&unseenStep{What: "sync", Policy: Both}); err != nil {
			return fmt.Errorf("at last: %w", err)
		}
	}
	here, there := p.local.list(), p.world.remote.list()
	if !slices.Equal(here, there) {
		return fmt.Errorf("here %q, there %q", here, there)
	}
	all := slices.Concat(here, p.local.losers(), p.world.remote.losers())
	for v := range p.live {
		if !slices.ContainsFunc(all, func(line string) bool { return strings.HasSuffix(line, " "+v) }) {
			return fmt.Errorf("%s is nowhere: %q", v, all)
		}
	}
	return nil
}

// No entry takes the place of an edit while its path is closed here, and no value is lost, in random plans of what both
// sides do. The test tries some plans, always the same; any number of others with -rapid.checks.
func TestUnseenModel(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue {
		for seed := range 300 {
			steps := rapid.Custom(drawUnseenSteps).Example(seed)
			if err := playUnseen(t, steps); err != nil {
				t.Fatalf("seed %d: %v\n%+v", seed, err, steps)
			}
		}
		return
	}
	rapid.Check(t, func(rt *rapid.T) {
		if err := playUnseen(rt, drawUnseenSteps(rt)); err != nil {
			rt.Fatalf("%v", err)
		}
	})
}
