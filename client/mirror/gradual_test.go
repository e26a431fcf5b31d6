package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A slow Workspace calls after once some of what is new is in its tree, each time.
type slow struct {
	changes.Gradual
	after func()
	parts int
}

func (s *slow) SettleBy(ctx context.Context, paths int, bytes int64, some func() bool) error {
	return s.Gradual.SettleBy(ctx, paths, bytes, func() bool {
		s.parts++
		more := some()
		if s.after != nil {
			s.after()
		}
		return more
	})
}

// A pushed Peer calls fn at each push that is answered.
type pushed struct {
	changes.Peer
	fn func(n int)
	n  int
}

func (p *pushed) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	r, err := p.Peer.Push(ctx, in, entries)
	p.n++
	if p.fn != nil {
		p.fn(p.n)
	}
	return r, err
}

// gradually has the mirror of a pair go over a slow Workspace and a Peer that counts.
func (p *pair) gradually(policy Policy, change func(*Config)) (*slow, *pushed) {
	s, c := &slow{Gradual: p.local}, &pushed{Peer: p.cut}
	p.start(policy)
	cfg := p.m.cfg
	cfg.Local, cfg.Remote = s, c
	if change != nil {
		change(&cfg)
	}
	p.m = New(cfg)
	p.m.limits.part = 2 // a file
	return s, c
}

func (p *pair) fiveFiles() {
	for i := range 5 {
		p.local.write(fmt.Sprintf("d%d/f", i), fmt.Sprint("v", i))
	}
}

// A push sends new files while it reads others: the directory is not read on before the first of
// them are at the remote.
func TestSendsWhileItSettles(t *testing.T) {
	p := newPair(t)
	s, c := p.gradually(Both, nil)
	first := make(chan struct{})
	c.fn = func(n int) {
		if n == 1 {
			close(first)
		}
	}
	s.after = func() {
		<-first
		if got := p.remote.files(); !strings.HasPrefix(got, "d0/f=v0") {
			t.Errorf("there: %q", got)
		}
	}
	p.fiveFiles()
	r, err := p.sync()
	if err != nil || !r.InStep || r.Pushed != 10 || r.ObjectsOut != 5 {
		t.Errorf("got %+v, %v", r, err)
	}
	all := "d0/f=v0 d1/f=v1 d2/f=v2 d3/f=v3 d4/f=v4"
	p.want(all, all)
	if s.parts != 4 || c.n < 2 || c.n > 5 { // a push may bring a part that has come while it was listed
		t.Errorf("%d parts, %d pushes", s.parts, c.n)
	}
	if r, err := p.sync(); err != nil || r.moved() || !r.InStep {
		t.Errorf("again: %+v, %v", r, err)
	}
}

// Nothing is sent before all is known when something is to be decided by it.
func TestKnowsAllBeforeItSends(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  func(*Config)
		do   func(*pair)
		want error
	}{
		"removed": {
			cfg:  func(c *Config) { c.MayDelete = func(n, _ int) bool { return n == 0 } },
			do:   func(p *pair) { p.local.remove("old") },
			want: &DeletesError{},
		},
		"removed before": {
			cfg: func(c *Config) { c.MayDelete = func(n, _ int) bool { return n == 0 } },
			do: func(p *pair) {
				p.local.remove("old")
				if err := p.local.Settle(p.t.Context()); err != nil {
					p.t.Fatal(err)
				}
			},
			want: &DeletesError{},
		},
		"changed there": {do: func(p *pair) { p.remote.write("old", "theirs"); p.local.write("old", "ours") }, want: &ConflictError{}},
		"rules":         {cfg: func(c *Config) { c.RulesFile = ".rules" }, do: func(p *pair) { p.local.write(".rules", "[") }, want: &RulesError{}},
		"git's rules":   {cfg: func(c *Config) { c.GitIgnore = true }},
		"undoing":       {cfg: func(c *Config) { c.Undo = true }},
		"guarding":      {cfg: func(c *Config) { c.Guard = true }},
		"a plain remote": {
			cfg: func(c *Config) { c.Remote.(*pushed).Peer.(*cutter).mute = true }, //nolint:errcheck,forcetypeassert // as made
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.local.write("old", "old")
			p.start(Fail)
			if _, err := p.sync(); err != nil {
				t.Fatal(err)
			}
			s, _ := p.gradually(Fail, func(c *Config) {
				c.Dir = p.local.dir
				if test.cfg != nil {
					test.cfg(c)
				}
			})
			p.fiveFiles()
			if test.do != nil {
				test.do(p)
			}
			before := p.remote.files()
			_, err := p.sync()
			switch test.want.(type) {
			case nil:
				if err != nil {
					t.Error(err)
				}
			default:
				if fmt.Sprintf("%T", errors.Unwrap(err)) != fmt.Sprintf("%T", test.want) && fmt.Sprintf("%T", err) != fmt.Sprintf("%T", test.want) {
					t.Errorf("got %v", err)
				}
				if got := p.remote.files(); got != before {
					t.Errorf("there: %q, want %q", got, before)
				}
			}
			if s.parts != 0 && test.do == nil {
				t.Errorf("%d parts", s.parts)
			}
		})
	}
}

// A path that changes at the remote while others are sent is a conflict.
func TestConflictWhileItSettles(t *testing.T) {
	p := newPair(t)
	s, c := p.gradually(Both, nil)
	first := make(chan struct{})
	c.fn = func(n int) {
		if n == 1 {
			p.remote.write("d4/f", "theirs")
			close(first)
		}
	}
	s.after = func() { <-first }
	p.fiveFiles()
	if r, err := p.sync(); err != nil || !r.InStep {
		t.Errorf("got %+v, %v", r, err)
	}
	all := "d0/f=v0 d1/f=v1 d2/f=v2 d3/f=v3 d4/f.conflict=v4 d4/f=theirs"
	p.want(all, all, "d4/f kept both copy")
}

// A connection that ends while some is sent leaves the rest to the next time.
func TestCutWhileItSettles(t *testing.T) {
	for left := 2; left < 14; left += 2 {
		p := newPair(t)
		p.gradually(Both, nil)
		p.fiveFiles()
		p.cut.set(left, left%4 == 0)
		if _, err := p.sync(); err != nil && !errors.Is(err, errCut) {
			t.Errorf("cut %d: %v", left, err)
		}
		p.cut.set(-1, false)
		if r, err := p.sync(); err != nil || !r.InStep {
			t.Errorf("cut %d: %+v, %v", left, r, err)
		}
		all := "d0/f=v0 d1/f=v1 d2/f=v2 d3/f=v3 d4/f=v4"
		p.want(all, all)
	}
}

// A file that is gone before it is sent was there: it is sent, and removed.
func TestGoneWhileItSettles(t *testing.T) {
	p := newPair(t)
	s, _ := p.gradually(Both, nil)
	s.after = func() {
		if s.parts == 2 { // it has been read
			if err := os.Remove(filepath.Join(p.local.dir, "d1", "f")); err != nil {
				t.Error(err)
			}
		}
	}
	p.fiveFiles()
	if r, err := p.sync(); err != nil || !r.InStep {
		t.Errorf("got %+v, %v", r, err)
	}
	all := "d0/f=v0 d2/f=v2 d3/f=v3 d4/f=v4"
	p.want(all, all)
}

// Blank tells a remote without anything, of strangers.
func TestBlank(t *testing.T) {
	p := newPair(t)
	p.local.write("a", "a")
	p.start(Both)
	want := func(want bool) {
		t.Helper()
		if got, err := p.m.Blank(t.Context()); got != want || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
	want(true)
	p.remote.write("d/b", "b")
	want(false)
	p.remote.remove("d")
	want(true)
	if _, err := p.sync(); err != nil {
		t.Fatal(err)
	}
	want(false)
}
