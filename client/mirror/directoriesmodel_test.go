package mirror

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A dirStep is something that is done at one of the sides, or by the mirror.
type dirStep struct {
	What, Path, To string
	There          bool // at the remote
	Left           int
	Answer         bool
}

// dirPlan is what is done, and how the mirror is.
type dirPlan struct {
	Policy Policy
	Mute   bool
	Steps  []dirStep
}

func drawDirPlan(rt *rapid.T) dirPlan {
	paths := []string{"/d", "/d/e", "/d/e", "/d/e/a", "/d/e/b", "/d/f", "/d/e/.envrc", "/d/.envrc"}
	what := []string{
		"write", "write", "long", "long", "rm", "rm", "rm", "mkdir", "mv", "sync", "sync", "sync", "sync", "sync", "sync", "cut", "restart",
		"no room", "no room", "no room for", "no copies", "room",
	}
	return dirPlan{
		Policy: rapid.SampledFrom([]Policy{Both, Theirs, Ours}).Draw(rt, "policy"),
		Mute:   rapid.Bool().Draw(rt, "mute"),
		Steps: rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) dirStep {
			return dirStep{
				rapid.SampledFrom(what).Draw(rt, "what"), rapid.SampledFrom(paths).Draw(rt, "path"), rapid.SampledFrom(paths).Draw(rt, "to"),
				rapid.Bool().Draw(rt, "there"), rapid.IntRange(1, 24).Draw(rt, "left"), rapid.Bool().Draw(rt, "answer"),
			}
		}), 3, 24).Draw(rt, "steps"),
	}
}

// dirPlay has two sides and a mirror. This side may have no room for what comes.
type dirPlay struct {
	*world
	cut    *cutter
	remote *small
	ws     *closing
	tight  *tight
	n      int
}

func (p *dirPlay) step(s *dirStep) error {
	e := p.local
	if s.There {
		e = p.world.remote
	}
	p.n++
	line := ""
	switch s.What {
	case "write":
		line = fmt.Sprintf("write %s v%d", s.Path, p.n)
	case "long":
		line = fmt.Sprintf("write %s v%d%s", s.Path, p.n, strings.Repeat("x", 40))
	case "rm", "mkdir":
		line = s.What + " " + s.Path
	case "mv":
		line = "mv " + s.Path + " " + s.To
	case "sync":
		return p.sync()
	case "cut":
		p.cut.set(s.Left, s.Answer)
		return p.sync()
	case "restart":
		p.restart()
	case "no room":
		p.remote.roomHere = 20
	case "no room for":
		p.tight.full[s.Path] = true
	case "no copies":
		p.ws.noCopies = true
	case "room":
		p.room()
	}
	if line != "" {
		e.tick()
		_ = e.run(line) // or it cannot be done
	}
	return nil
}

func (p *dirPlay) room() {
	p.remote.roomHere, p.ws.noCopies = 0, false
	clear(p.tight.full)
}

func (p *dirPlay) sync() error {
	_, err := p.m.Sync(context.Background())
	p.cut.set(-1, false)
	if errors.Is(err, errCut) {
		return nil
	}
	return err
}

// settle has the mirror begin anew, twice.
func (p *dirPlay) settle() error {
	for range 2 {
		p.restart()
		if err := p.sync(); err != nil {
			return fmt.Errorf("at last: %w", err)
		}
	}
	return nil
}

func playDirs(t tb, plan *dirPlan) error {
	p := &dirPlay{world: newWorld(t, Config{OnConflict: plan.Policy})}
	p.remote = &small{Server: p.world.remote.server, room: 1 << 30}
	p.ws = &closing{Workspace: p.local.ws, closed: map[string]tree.Kind{}, edits: map[string]string{}}
	p.tight = &tight{Workspace: p.ws, full: map[string]bool{}}
	p.local.ws = p.tight
	p.cut = &cutter{Peer: p.remote, left: -1, mute: plan.Mute}
	p.cfg.Remote = p.cut
	p.restart()
	p.local.do("write /d/e/a v0", "write /d/f v0", "write /one 1")
	if err := p.sync(); err != nil {
		return err
	}
	for i := range plan.Steps {
		if err := p.step(&plan.Steps[i]); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	p.room()
	if err := p.settle(); err != nil {
		return err
	}
	for _, e := range []*end{p.local, p.world.remote} {
		for _, l := range e.list() {
			if path, _, _ := strings.Cut(l, " "); strings.HasSuffix(path, "/.envrc") {
				e.do("rm " + path)
			}
		}
	}
	if err := p.settle(); err != nil {
		return err
	}
	if here, there := p.local.list(), p.world.remote.list(); !slices.Equal(here, there) {
		return fmt.Errorf("here %q, there %q", here, there)
	}
	return nil
}

// Both sides come to be the same, directories too, in random plans of what both do, once there is room for all
// and nothing is withheld. The test tries some plans, always the same; any number of others with -rapid.checks.
func TestDirectoriesModel(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue {
		for seed := range 300 {
			plan := rapid.Custom(drawDirPlan).Example(seed)
			if err := playDirs(t, &plan); err != nil {
				t.Fatalf("seed %d: %v\n%+v", seed, err, plan)
			}
		}
		return
	}
	rapid.Check(t, func(rt *rapid.T) {
		plan := drawDirPlan(rt)
		if err := playDirs(rt, &plan); err != nil {
			rt.Fatalf("%v", err)
		}
	})
}
