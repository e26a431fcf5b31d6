package mirror

import (
	"errors"
	"flag"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// A deed is what somebody does in a directory.
type deed struct {
	What     string // "write", "remove", "move", "swap"
	Path, To string
}

// do does it in a place, as far as it can be done, and forgets what its doer has seen.
func (d *diskWriters) do(side int, s deed) {
	p := d.places[side]
	at := func(name string) string { return filepath.Join(p.dir, name) }
	d.log = append(d.log, fmt.Sprintf("%d %+v of %s", side, s, p.files()))
	switch s.What {
	case "write":
		for dir := filepath.Dir(s.Path); dir != "."; dir = filepath.Dir(dir) {
			if info, err := os.Lstat(at(dir)); err == nil && !info.IsDir() {
				d.remove(at(dir))
			}
		}
		if info, err := os.Lstat(at(s.Path)); err == nil && info.IsDir() {
			d.remove(at(s.Path))
		}
		d.sees(at(s.Path))
		d.n++
		text := fmt.Sprintf("v%d", d.n)
		d.live[text] = true
		p.write(s.Path, text)
	case "remove":
		d.remove(at(s.Path))
	case "move":
		if err := os.MkdirAll(filepath.Dir(at(s.To)), 0o755); err != nil {
			return
		}
		if info, err := os.Lstat(at(s.To)); err == nil && !info.IsDir() {
			d.sees(at(s.To))
		}
		_ = os.Rename(at(s.Path), at(s.To)) // or it cannot be done
	case "swap":
		if os.Rename(at(s.Path), at("swap")) == nil {
			if os.Rename(at(s.To), at(s.Path)) != nil {
				_ = os.Rename(at("swap"), at(s.Path))
			} else if os.Rename(at("swap"), at(s.To)) != nil {
				_ = os.Rename(at("swap"), at("swapped"))
			}
		}
	}
}

// sees notes that somebody overwrites knowingly what is at a path.
func (d *diskWriters) sees(path string) {
	err := filepath.WalkDir(path, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		delete(d.live, string(text))
		return err
	})
	if err != nil && !nothing(err) {
		d.t.Error(err)
	}
}

// nothing reports whether an error says that there is nothing at a path.
func nothing(err error) bool {
	return errors.Is(err, iofs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func (d *diskWriters) remove(path string) {
	d.sees(path)
	if err := os.RemoveAll(path); err != nil && !nothing(err) {
		d.t.Error(err)
	}
}

// diskWriters are two people with a directory each.
type diskWriters struct {
	*pair
	places [2]*place
	live   map[string]bool // values that nobody has overwritten who saw them
	n      int
	log    []string
}

// A round is what is done at each side before a tick, just before its batches are decided,
// and while they are brought.
type round struct {
	First, Before, During [2][]deed
	Left                  int // until the connection breaks
	Answer                bool
}

func drawRounds(rt *rapid.T) []round {
	path := rapid.SampledFrom([]string{"a", "b", "d/a", "d/\xe9", "d", "e/d"})
	deeds := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) deed {
		return deed{rapid.SampledFrom([]string{"write", "write", "write", "write", "remove", "move", "swap"}).Draw(rt, "what"), path.Draw(rt, "path"), path.Draw(rt, "to")}
	}), 0, 3)
	both := func(rt *rapid.T, label string) [2][]deed {
		return [2][]deed{deeds.Draw(rt, label+" here"), deeds.Draw(rt, label+" there")}
	}
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) round {
		return round{
			First: both(rt, "first"), Before: both(rt, "before"), During: both(rt, "during"),
			Left: rapid.SampledFrom([]int{-1, -1, -1, 3, 5, 7, 9, 12, 20}).Draw(rt, "left"), Answer: rapid.Bool().Draw(rt, "answer"),
		}
	}), 1, 6).Draw(rt, "plan")
}

func (d *diskWriters) play(plan []round, policy Policy) error {
	for i := range plan {
		s := &plan[i]
		for side, p := range d.places {
			for _, one := range s.First[side] {
				d.do(side, one)
			}
			p.before = func() { d.all(side, s.Before[side]) }
			p.during = func() { d.all(side, s.During[side]) }
		}
		d.cut.set(s.Left, s.Answer)
		_, err := d.m.Tick(d.t.Context())
		d.cut.set(-1, false)
		d.log = append(d.log, fmt.Sprint("tick: ", err))
		for _, p := range d.places {
			p.before, p.during = nil, nil
		}
		var failed *ConflictError
		if err != nil && !errors.Is(err, errCut) && !errors.As(err, &failed) {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	if !policy.decides() {
		policy = Both
	}
	d.start(policy)
	r, err := d.sync()
	if err != nil || !r.InStep {
		return fmt.Errorf("at last: %+v, %w", r, err)
	}
	here, there := d.local.files(), d.remote.files()
	if here != there {
		return fmt.Errorf("here  %s\nthere %s", here, there)
	}
	var texts []string
	for f := range strings.FieldsSeq(here) {
		_, text, _ := strings.Cut(f, "=")
		texts = append(texts, text)
	}
	for _, v := range d.local.kept() {
		_, text, _ := strings.Cut(v, "=")
		texts = append(texts, text)
	}
	for text := range d.live {
		if !slices.Contains(texts, text) {
			return fmt.Errorf("%s is nowhere: %s, kept %v, conflicts %q", text, here, d.local.kept(), d.lines())
		}
	}
	return nil
}

func (d *diskWriters) all(side int, list []deed) {
	for _, one := range list {
		d.do(side, one)
	}
}

// TestTwoWriters with directories on disk, with whole directories that come and go. It tries
// a few plans, always the same; any number of others with -rapid.checks.
func TestTwoWritersOnDisk(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	for _, policy := range policies {
		t.Run(policy.String(), func(t *testing.T) {
			if checks.Value.String() == checks.DefValue {
				for seed := range 3 {
					playOnDisk(t, rapid.Custom(drawRounds).Example(seed), policy)
				}
				return
			}
			rapid.Check(t, func(rt *rapid.T) {
				if !playOnDisk(t, drawRounds(rt), policy) {
					rt.Fatal("see above")
				}
			})
		})
	}
}

func playOnDisk(t *testing.T, plan []round, policy Policy) bool {
	t.Helper()
	return t.Run("plan", func(t *testing.T) {
		d := &diskWriters{pair: newPair(t), live: map[string]bool{}}
		d.places = [2]*place{d.local, d.remote}
		d.start(policy)
		if err := d.play(plan, policy); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(d.log, "\n"))
		}
	})
}
