package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// lose removes the content of a text from the store, as a command does that writes to the one
// file that has it.
func (e *end) lose(text string) {
	e.t.Helper()
	_, err := e.tree.Update(context.Background(), func(ed *tree.Edit) error {
		return ed.Tx().DeleteChunk(tree.Sum([]byte(text)))
	})
	if err != nil {
		e.t.Fatalf("lose %q: %v", text, err)
	}
}

// A changing Workspace is changed before each Settle.
type changing struct {
	changes.Workspace
	change func()
}

func (c *changing) Settle(ctx context.Context) error {
	c.change()
	return c.Workspace.Settle(ctx)
}

// A file that changes between the look at it and the sending of its content holds up nothing,
// and its new content is sent. One whose content is gone for good is named.
func TestContentVanishesHere(t *testing.T) {
	for name, comes := range map[string]bool{"it has changed": true, "it is gone": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			w.local.do("write /a one", "write /f old", "write /g old", "write /z two")
			w.local.lose("old")
			settles := 0
			w.local.ws = &changing{w.local.ws, func() {
				if settles++; settles == 2 && comes {
					w.local.do("write /f new", "write /g newer")
				}
			}}
			w.restart()
			r := w.sync()
			if comes {
				if r.Pushed != 4 || len(r.Here) != 0 {
					t.Errorf("%+v", r)
				}
				w.same()
				return
			}
			if diff := cmp.Diff(unread("/f", "/g"), r.Here); diff != "" || r.Pushed != 2 {
				t.Errorf("%d were sent; left out (-want +got):\n%s", r.Pushed, diff)
			}
			w.remote.want("/a 644 one", "/z 644 two")
			w.local.do("write /f new", "rm /g")
			if r := w.sync(); len(r.Here) != 0 {
				t.Errorf("left out: %+v", r.Here)
			}
			w.same()
		})
	}
}

// Content that the remote loses after it was asked, since a command has written to the one file
// that had it, is sent.
func TestContentVanishesThere(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /a text")
	w.sync()
	lost := false
	w.cfg.Remote = &beforePush{w.remote.server, func() {
		if !lost {
			lost = true
			w.remote.do("write /a other")
			w.remote.lose("text")
		}
	}}
	w.restart()
	w.local.do("write /b text", "write /c more")
	w.sync()
	w.same()
	w.remote.want("/a 644 other", "/b 644 text", "/c 644 more")
}

// A losing peer loses content before each of its first fetches of content.
type losing struct {
	changes.Peer
	lose []func()
}

func (l *losing) FetchObjects(ctx context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	if len(l.lose) > 0 {
		l.lose[0]()
		l.lose = l.lose[1:]
	}
	return l.Peer.FetchObjects(ctx, hashes)
}

// While a pull fetches content one file after the other may change at the remote.
func TestContentVanishesWhileItIsFetched(t *testing.T) {
	w := newWorld(t, Config{})
	l := &losing{Peer: w.remote.server}
	for _, name := range []string{"one", "two", "three"} {
		w.remote.do("write /" + name + " " + name)
		l.lose = append(l.lose, func() {
			w.remote.do("write /" + name + " new-" + name)
			w.remote.lose(name)
		})
	}
	w.remote.do("write /z last")
	w.cfg.Remote = l
	w.restart()
	w.sync()
	w.local.want("/one 644 new-one", "/three 644 new-three", "/two 644 new-two", "/z 644 last")
	w.rest()
}

// Content that is in a file here need not be fetched. When that file is overwritten before it is
// taken, it is fetched after all.
func TestContentVanishesBeforeItIsTaken(t *testing.T) {
	p := newPair(t)
	p.remote.write("a", "text")
	p.remote.write("b", "more")
	p.start(Both)
	if _, err := p.sync(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if err := os.Rename(filepath.Join(p.remote.dir, name), filepath.Join(p.remote.dir, "moved-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	p.local.before = func() {
		p.local.write("a", "mine")
		p.local.write("b", "mine, too")
	}
	r, err := p.sync()
	if err != nil || !r.InStep || r.ObjectsIn != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	all := "a=mine b=mine, too moved-a=text moved-b=more"
	p.want(all, all, "a kept local", "b kept local")
}

// That holds for the copy of a version that loses as well.
func TestContentVanishesBeforeItIsCopied(t *testing.T) {
	p := newPair(t)
	p.local.write("zzz", "base")
	p.start(Both)
	if _, err := p.sync(); err != nil {
		t.Fatal(err)
	}
	p.local.write("zzz", "mine")
	p.remote.write("zzz", "theirs")
	p.local.before = func() {
		// The next one is that of the copies.
		p.local.before = func() { p.local.write("zzz", "newer") }
	}
	r, err := p.sync()
	if err != nil || !r.InStep {
		t.Fatalf("%+v, %v", r, err)
	}
	all := "zzz.conflict=newer zzz=theirs"
	p.want(all, all, "zzz kept both copy")
}

// So does it for a version that was overtaken at the remote and is kept here.
func TestContentVanishesBeforeItIsKept(t *testing.T) {
	p := newPair(t)
	p.local.write("yyy", "a")
	p.local.write("zzz", "a")
	p.start(Both)
	if _, err := p.sync(); err != nil {
		t.Fatal(err)
	}
	p.local.write("yyy", "b")
	p.local.write("zzz", "b")
	p.remote.during = func() {
		p.remote.write("yyy", "lost")
		p.remote.write("zzz", "lost, and here")
		p.cut.set(1, true)
	}
	if _, err := p.sync(); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	p.remote.write("yyy", "later")
	p.remote.write("zzz", "later")
	p.local.write("other", "lost, and here")
	p.cut.set(-1, false)
	p.cut.Peer = &losing{Peer: p.remote.server, lose: []func(){func() { p.local.write("other", "changed") }}}
	p.start(Theirs)
	if r, err := p.sync(); err != nil || !r.InStep {
		t.Fatalf("%+v, %v", r, err)
	}
	all := "other=changed yyy=later zzz=later"
	p.want(all, all, "yyy kept local lost yyy=lost", "zzz kept local lost zzz=lost, and here", "yyy kept remote lost yyy=b", "zzz kept remote lost zzz=b")
}

// Or for a file with rules that a pull brings.
func TestContentVanishesBeforeItCounts(t *testing.T) {
	p := newPair(t)
	p.remote.write("old", "*.log\n")
	p.start(Both)
	if _, err := p.sync(); err != nil {
		t.Fatal(err)
	}
	p.remote.write("d/.gitignore", "*.tmp\n")
	if err := os.Rename(filepath.Join(p.remote.dir, "old"), filepath.Join(p.remote.dir, ".gitignore")); err != nil {
		t.Fatal(err)
	}
	p.remote.write("a.log", "hidden")
	p.remote.write("d/a.tmp", "hidden")
	p.cut.Peer = &losing{Peer: p.remote.server, lose: []func(){func() { p.local.write("old", "changed") }}}
	p.start(Both)
	p.m.cfg.GitIgnore = true
	if r, err := p.sync(); err != nil || !r.InStep {
		t.Fatalf("%+v, %v", r, err)
	}
	if got, want := p.local.files(), ".gitignore=*.log\n d/.gitignore=*.tmp\n old=changed"; got != want {
		t.Errorf("here: %q, want %q", got, want)
	}
}

// A settled Workspace is changed after each Settle, as long as there are changes.
type settled struct {
	changes.Gradual
	change []func()
}

func (s *settled) Settle(ctx context.Context) error {
	err := s.Gradual.Settle(ctx)
	if len(s.change) > 0 {
		s.change[0]()
		s.change = s.change[1:]
	}
	return err
}

// A file with rules that is changed just before it is read is read as it is then.
func TestRulesVanishBeforeTheyAreRead(t *testing.T) {
	p := newPair(t)
	p.local.write(".gitignore", "*.log\n")
	for _, name := range []string{"a.log", "a.new", "a.newer", "z"} {
		p.local.write(name, "text")
	}
	p.local.Gradual = &settled{p.local.Gradual, []func(){
		func() { p.local.write(".gitignore", "*.new\n") },
		func() { p.local.write(".gitignore", "*.newer\n") },
	}}
	p.start(Both)
	p.m.cfg.GitIgnore = true
	if r, err := p.sync(); err != nil || !r.InStep {
		t.Fatalf("%+v, %v", r, err)
	}
	if got, want := p.remote.files(), ".gitignore=*.newer\n a.log=text a.new=text z=text"; got != want {
		t.Errorf("there: %q, want %q", got, want)
	}
}

// A rewritten Workspace is changed before each Apply.
type rewritten struct {
	changes.Workspace
	change func()
}

func (r *rewritten) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	r.change()
	return r.Workspace.Apply(ctx, entries, how, also)
}

// A pull that finds another version that loses, and is gone, each time fails with what may be done.
func TestLoserChangesEachTime(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Both})
	w.local.do("write /f old")
	w.sync()
	w.local.do("write /f mine")
	w.remote.do("write /f theirs")
	n := 0
	ws := &rewritten{w.local.ws, func() {
		n++
		text := fmt.Sprint("mine-", n)
		w.local.do("write /f " + text)
		w.local.lose(text)
	}}
	w.local.ws = ws
	w.restart()
	if _, err := w.m.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "synchronise once more when nothing writes to them") {
		t.Errorf("%v after %d changes", err, n)
	}
	w.remote.want("/f 644 theirs")
	ws.change = func() {}
	w.local.do("write /f mine")
	w.sync()
	w.same()
	w.local.want("/f 644 theirs", "/f.conflict-"+copyHash("mine")+" 644 mine")
}
