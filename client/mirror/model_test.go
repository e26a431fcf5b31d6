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

// A history is what happened to a path since both sides last were in step.
type history struct {
	last [2]string // what each side's user made of it last, "" for removed
	done [2]bool   // that they did
	// knew: what the user of a side changed last was what the other side's had made of it
	// last.
	knew [2]bool
	// met: at some time neither knew of the other's, so that a conflict may have been
	// reported, and unclear: an absent file does not tell who removed it.
	met, unclear bool
}

const (
	here  = 0
	there = 1
)

// A model is a world with the histories of its paths.
type model struct {
	*world
	cut   *cutter
	paths map[string]*history
	n     int
}

func (m *model) end(side int) *end { return [...]*end{m.local, m.remote}[side] }

// now is the content of a path, "" for none.
func (m *model) now(side int, path string) string {
	text, err := m.end(side).tree.ReadFile(context.Background(), path, 100)
	if err != nil {
		return ""
	}
	return string(text)
}

// change has a user write or remove a path.
func (m *model) change(side int, path string, remove bool) {
	was := m.now(side, path)
	if remove && was == "" {
		return
	}
	h := m.paths[path]
	if h == nil {
		h = new(history)
		m.paths[path] = h
	}
	// A user who goes on with a work of his own knows what he knew before.
	if !h.done[side] || was != h.last[side] {
		h.knew[side] = h.done[1-side] && was == h.last[1-side]
	}
	h.unclear = h.unclear || (was == "" && (h.done[here] || h.done[there]))
	h.done[side] = true
	h.knew[1-side] = false // what he knew is no longer the last word
	if remove {
		h.last[side] = ""
		h.met = h.met || h.concurrent()
		m.end(side).do("rm " + path)
		return
	}
	m.n++
	h.last[side] = fmt.Sprintf("v%d", m.n)
	h.met = h.met || h.concurrent()
	m.end(side).do("write " + path + " " + h.last[side])
}

func (h *history) concurrent() bool {
	return h.done[here] && h.done[there] && !h.knew[here] && !h.knew[there]
}

// settle syncs without cuts and compares with the histories.
func (m *model) settle() error {
	m.cut.set(-1, false)
	early := strings.Join(m.conflicts, "\n")
	m.sync()
	if a, b := m.local.list(), m.remote.list(); !slices.Equal(a, b) {
		return fmt.Errorf("local %q\nremote %q", a, b)
	}
	told := map[string]bool{}
	for _, line := range m.conflicts {
		path, _, _ := strings.Cut(line, ":")
		told[path] = true
	}
	for path, h := range m.paths {
		got := m.now(here, path)
		want := []string{h.last[here], h.last[there]}
		conflict := false
		switch {
		case !h.done[there] || h.knew[here]:
			want = want[:1]
		case !h.done[here] || h.knew[there]:
			want = want[1:]
		case h.last[here] != h.last[there]:
			conflict = true
			switch m.cfg.OnConflict {
			case Theirs:
				want = want[1:]
			case Ours:
				want = want[:1]
			case Both:
				if want[1] == "" {
					want = want[:1]
				} else {
					want = want[1:]
				}
			case Fail, Hold:
			}
		}
		if h.unclear || strings.Contains(early, path+":") { // decided before the last change
			h.unclear = true
			want = []string{h.last[here], h.last[there]}
		}
		if !slices.Contains(want, got) {
			return fmt.Errorf("%s is %q, want one of %q: %+v, conflicts %q", path, got, want, *h, m.conflicts)
		}
		if !h.unclear && (conflict && !told[path] || told[path] && !h.met) {
			return fmt.Errorf("%s: conflict %t, reported %q: %+v", path, conflict, m.conflicts, *h)
		}
		if conflict && m.cfg.OnConflict == Both && h.last[here] != "" && h.last[there] != "" && !h.unclear {
			if !strings.Contains(strings.Join(m.local.list(), "\n"), h.last[here]) {
				return fmt.Errorf("%s: %q is not kept beside", path, h.last[here])
			}
		}
	}
	m.conflicts, m.paths = nil, map[string]*history{}
	m.local.check()
	m.remote.check()
	return nil
}

// A step of a plan.
type step struct {
	what   int // see run
	path   string
	left   int
	answer bool
}

func drawPlan(rt *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
		return step{
			what:   rapid.SampledFrom([]int{0, 0, 0, 1, 1, 1, 2, 3, 4, 4, 4, 5, 6}).Draw(rt, "what"),
			path:   rapid.SampledFrom([]string{"/a", "/b", "/d/a", "/d/\U0010FEE9"}).Draw(rt, "path"),
			left:   rapid.IntRange(1, 24).Draw(rt, "left"),
			answer: rapid.Bool().Draw(rt, "answer"),
		}
	}), 1, 30).Draw(rt, "plan")
}

func (m *model) run(s step) error {
	switch s.what {
	case 0, 1:
		m.change(s.what, s.path, false)
	case 2, 3:
		m.change(s.what-2, s.path, true)
	case 4: // a tick, that is cut
		m.cut.set(s.left, s.answer)
		_, err := m.m.Tick(context.Background())
		if err != nil && !errors.Is(err, errCut) {
			return err
		}
	case 5: // a crash
		m.restart()
	case 6:
		return m.settle()
	}
	return nil
}

func testModel(t *testing.T, policy Policy, mute bool) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := drawPlan(rt)
		m := &model{paths: map[string]*history{}, cut: &cutter{left: -1, mute: mute}}
		m.world = newWorld(rt, Config{OnConflict: policy, Remote: m.cut})
		m.cut.Peer = m.remote.server
		for i, s := range plan {
			if err := m.run(s); err != nil {
				rt.Fatalf("step %d %+v: %v", i, s, err)
			}
		}
		if err := m.settle(); err != nil {
			rt.Fatalf("at last: %v", err)
		}
	})
}

// Whatever is cut, and whenever the mirror crashes: both sides come to be the same, each
// path is what the last one made of it who knew of the others' changes, and what nobody
// knew of is reported, nothing else is.
func TestModel(t *testing.T) {
	for _, policy := range []Policy{Theirs, Ours, Both} {
		t.Run(policy.String(), func(t *testing.T) { testModel(t, policy, false) })
		t.Run(policy.String()+" mute", func(t *testing.T) { testModel(t, policy, true) })
	}
}
