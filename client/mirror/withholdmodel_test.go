package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A guard is a world in which code and modes are withheld, with what each side's user has
// made of its paths.
type guard struct {
	*world
	cut  *cutter
	mine map[string]bool // contents that the user here has written
	left map[string]string
	// due holds the paths that the user here has changed since both sides were in step. A
	// remote change of such a path is a conflict, unless it is code, and the policy decides
	// it. The change of a mute remote may be an echo.
	due map[string]bool
	// seen are the versions of each path that the remote had after a tick, back to the one
	// that has brought both sides in step. A version that is made there and undone before the
	// next tick is no change.
	seen map[string][]string
	// gone are the paths that a push has removed, or would have before it was cut. That the
	// user of the remote removes them too is the same change.
	gone map[string]bool
	n    int
}

// guarded are its paths.
var guarded = []string{"/.envrc", "/.git/config", "/s"}

func newGuard(t tb, mute bool) *guard {
	t.Helper()
	g := &guard{cut: &cutter{left: -1, mute: mute}, mine: map[string]bool{}, left: map[string]string{}, due: map[string]bool{}, seen: map[string][]string{}, gone: map[string]bool{}}
	g.world = newWorld(t, Config{Remote: g.cut})
	g.cut.Peer = g.remote.server
	for _, path := range guarded {
		g.seen[path] = []string{""}
	}
	return g
}

func (g *guard) run(s step) error {
	e := g.remote
	if s.what%2 == 0 {
		e = g.local
	}
	switch s.what {
	case 0, 1: // write
		g.n++
		text := fmt.Sprintf("v%d", g.n)
		e.do("write " + s.path + " " + text)
		if e == g.local {
			g.mine[text] = true
		}
	case 2, 3: // remove
		if e.line(s.path) == "" {
			return nil
		}
		e.do("rm " + s.path)
	case 5: // bits, there
		if l := e.line(s.path); l == "" || strings.HasPrefix(l, s.path+" 4755 ") {
			return nil
		}
		e.do("chmod " + s.path + " 4755")
	case 4, 6:
		if s.what == 6 {
			g.restart()
		}
		g.cut.set(s.left, s.answer)
		_, err := g.m.Tick(context.Background())
		if err != nil && !errors.Is(err, errCut) {
			return err
		}
		if err == nil {
			clear(g.due)
			clear(g.seen)
			clear(g.gone)
		}
		for _, path := range guarded {
			g.seen[path] = append(g.seen[path], g.remote.line(path))
			g.gone[path] = g.gone[path] || g.due[path] && g.local.line(path) == ""
		}
		g.cut.set(-1, false)
		return g.check()
	}
	switch {
	case e == g.local:
		g.due[s.path] = true
		delete(g.left, s.path) // a change from here is sent
	case g.due[s.path] && slices.Contains(g.seen[s.path], g.remote.line(s.path)), s.what == 3 && g.gone[s.path]:
		delete(g.left, s.path)
	case s.path != "/s" && !g.cut.mute || !g.due[s.path]:
		g.left[s.path] = g.remote.line(s.path)
	}
	return nil
}

// check holds the world against what was promised.
func (g *guard) check() error {
	for _, l := range g.local.list() {
		f := strings.Fields(l)
		if len(f) < 3 {
			continue
		}
		if (f[0] == "/.envrc" || f[0] == "/.git/config") && !g.mine[f[2]] {
			return fmt.Errorf("code has come over: %q", l)
		}
		if len(f[1]) > 3 {
			return fmt.Errorf("bits have come over: %q", l)
		}
	}
	for path, want := range g.left {
		if got := g.remote.line(path); got != want {
			return fmt.Errorf("%s is %q at the remote, whose user has left %q", path, got, want)
		}
	}
	return nil
}

// Whatever is cut, and whenever the mirror crashes: nothing that is withheld comes over,
// and what a user of the remote has made stays as it is until the user here changes it.
// Then all of it comes over.
func TestSH8Model(t *testing.T) {
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprintf("mute %t", mute), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				plan := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
					return step{
						what:   rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3, 4, 4, 4, 5, 6}).Draw(rt, "what"),
						path:   rapid.SampledFrom(guarded).Draw(rt, "path"),
						left:   rapid.IntRange(1, 24).Draw(rt, "left"),
						answer: rapid.Bool().Draw(rt, "answer"),
					}
				}), 1, 30).Draw(rt, "plan")
				runGuard(rt, plan, mute)
			})
		})
	}
}

// runGuard runs a plan.
func runGuard(t tb, plan []step, mute bool) {
	t.Helper()
	g := newGuard(t, mute)
	for i, s := range plan {
		if err := g.run(s); err != nil {
			t.Fatalf("step %d %+v: %v", i, s, err)
		}
	}
	g.sync()
	if err := g.check(); err != nil {
		t.Fatalf("at last: %v", err)
	}
	g.cfg.AllowCode, g.cfg.AllowModes = true, true
	g.restart()
	g.sync()
	if a, b := g.local.list(), g.remote.list(); !slices.Equal(a, b) {
		t.Fatalf("with the flags: local %q, remote %q", a, b)
	}
}

// Plans of TestSH8Model that have failed.
func TestSH8Plans(t *testing.T) {
	const config = "/.git/config"
	for name, plan := range map[string][]step{
		"made and removed there, sent again": {
			{what: 0, path: config}, {what: 2, path: config}, {what: 4, left: 4}, {what: 0, path: config}, {what: 1, path: config}, {what: 3, path: config}, {what: 4, left: 14},
		},
		"made and removed there twice": {
			{what: 0, path: config}, {what: 1, path: config}, {what: 3, path: config}, {what: 4, left: 6}, {what: 0, path: config}, {what: 1, path: config}, {what: 3, path: config},
		},
		"removed there, and here by a push that was cut": {
			{what: 0, path: "/.envrc"}, {what: 4, left: 12}, {what: 2, path: "/.envrc"}, {what: 4, left: 6}, {what: 0, path: "/.envrc"}, {what: 3, path: "/.envrc"},
		},
		"replaced and removed there, and here by a push that was cut": {
			{what: 0, path: "/.envrc"},
			{what: 4, left: 20},
			{what: 2, path: "/.envrc"},
			{what: 4, left: 4},
			{what: 0, path: "/.envrc"},
			{what: 1, path: "/.envrc"},
			{what: 4, left: 30},
			{what: 3, path: "/.envrc"},
			{what: 4, left: 30},
		},
	} {
		for _, mute := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s mute %t", name, mute), func(t *testing.T) { runGuard(t, plan, mute) })
		}
	}
}
