package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/ignore"
	"github.com/wsd-dev/wsd/fs/tree"
)

// ignoring returns a world with rules, and the lines of what stayed.
func ignoring(t *testing.T, cfg Config) (*world, *[]string) {
	t.Helper()
	var stayed []string
	cfg.Stayed = func(s Stayed) {
		side := "here"
		if s.AtRemote {
			side = "there"
		}
		stayed = append(stayed, fmt.Sprintf("%s %s %v %d", side, s.Path, s.Names, s.More))
	}
	return newWorld(t, cfg), &stayed
}

func wantStayed(t *testing.T, got *[]string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("stayed (-want +got):\n%s", diff)
	}
	*got = nil
}

func TestIgnoreRulesBothWays(t *testing.T) {
	w, _ := ignoring(t, Config{Rules: []string{"*.o\n/build/\n!keep.o\n"}})
	w.local.do("write /a.o 1", "write /keep.o 1", "write /x/b.o 1", "write /build/f 1", "write /x/build/f 1", "write /c 1")
	w.remote.do("write /r.o 1", "write /build/g 1", "write /y/r.o 1", "write /d 1")
	w.sync()
	w.local.want("/a.o 644 1", "/build/ 755", "/build/f 644 1", "/c 644 1", "/d 644 1", "/keep.o 644 1",
		"/x/ 755", "/x/b.o 644 1", "/x/build/ 755", "/x/build/f 644 1", "/y/ 755")
	w.remote.want("/build/ 755", "/build/g 644 1", "/c 644 1", "/d 644 1", "/keep.o 644 1", "/r.o 644 1",
		"/x/ 755", "/x/build/ 755", "/x/build/f 644 1", "/y/ 755", "/y/r.o 644 1")
	// What changes of it stays where it is, also when it goes.
	w.local.do("write /a.o 2", "rm /x/b.o", "write /r.o 2")
	w.remote.do("rm /r.o", "write /build/g 2", "write /a.o 2", "rm /a.o")
	if r := w.sync(); r.Pushed+r.Changed+r.Conflicts > 0 {
		t.Errorf("moved %+v", r)
	}
	w.local.check()
	w.remote.check()
}

// What rules hide is not removed with its directory, on either side, and is named.
func TestIgnoreRulesRemoval(t *testing.T) {
	for _, other := range []bool{false, true} {
		cfg := Config{Rules: []string{"*.o\n"}}
		if other {
			cfg.Remote = &otherMake{}
		}
		w, stayed := ignoring(t, cfg)
		if other {
			cfg.Remote.(*otherMake).Peer = w.remote.server
		}
		w.local.do("write /p/sub/code 1", "write /p/sub/l.o 1", "write /q/code 1")
		w.sync()
		w.remote.do("write /p/sub/r.o 1", "write /q/r.o 1")
		w.sync()
		w.remote.do("rm /p/sub/code", "rm /q")
		w.local.do("rm /p")
		w.sync()
		wantStayed(t, stayed, "there /p [/p/sub/r.o] 0")
		w.local.want()
		w.remote.want("/p/ 755", "/p/sub/ 755", "/p/sub/r.o 644 1")
		// The other way round.
		w.remote.do("write /k/code 1")
		w.sync()
		w.local.do("write /k/l.o 1")
		w.sync()
		w.remote.do("rm /k")
		w.sync()
		wantStayed(t, stayed, "here /k [/k/l.o] 0")
		w.local.want("/k/ 755", "/k/l.o 644 1")
		w.sync()
		wantStayed(t, stayed)
		// The rest goes when it may.
		w.remote.do("rm /p/sub/r.o")
		w.sync()
		w.local.check()
		w.remote.check()
	}
}

// A otherMake looks at no base and leaves nothing alone, as servers of another make.
type otherMake struct{ changes.Peer }

func (p *otherMake) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	w, err := p.Peer.Watermarks(ctx, settle)
	w.ChecksBase = false
	return w, err
}

func (p *otherMake) Push(ctx context.Context, in changes.PushInput, s changes.Stream[tree.Entry]) (changes.PushResult, error) {
	in.Base, in.Ignore = nil, nil
	return p.Peer.Push(ctx, in, s)
}

// A directory that is renamed takes along what rules hide in it, on both sides, if it is hidden
// at its new place too.
func TestIgnoreRulesRename(t *testing.T) {
	w, stayed := ignoring(t, Config{Rules: []string{".env*\n/p/secret\n"}})
	w.local.do("write /p/code 1", "write /p/.env1 L")
	w.sync()
	w.remote.do("write /p/.env2 R")
	w.sync()
	w.local.do("mv /p /q")
	w.sync()
	w.local.want("/q/ 755", "/q/.env1 644 L", "/q/code 644 1")
	w.remote.want("/q/ 755", "/q/.env2 644 R", "/q/code 644 1")
	w.remote.do("mv /q /r")
	w.sync()
	w.local.want("/r/ 755", "/r/.env1 644 L", "/r/code 644 1")
	wantStayed(t, stayed)
	// It was known to be there: it stays when its directory goes.
	w.local.do("rm /r")
	w.sync()
	w.remote.want("/r/ 755", "/r/.env2 644 R")
	wantStayed(t, stayed, "there /r [/r/.env2] 0")

	w, stayed = ignoring(t, Config{Rules: []string{"/p/secret\n"}})
	w.local.do("write /p/code 1", "write /p/secret L")
	w.sync()
	w.remote.do("mv /p /q")
	w.sync()
	w.local.want("/p/ 755", "/p/secret 644 L", "/q/ 755", "/q/code 644 1")
	w.remote.want("/q/ 755", "/q/code 644 1")
	wantStayed(t, stayed, "here /p [/p/secret] 0")
	w.remote.do("write /p/secret R")
	w.sync()
	w.local.do("write /p/code 1")
	w.sync()
	w.local.do("rm /p/secret", "mv /p /s")
	w.sync()
	w.remote.want("/p/ 755", "/p/secret 644 R", "/q/ 755", "/q/code 644 1", "/s/ 755", "/s/code 644 1")
	wantStayed(t, stayed, "there /p [/p/secret] 0")
}

// A file that takes the place of a directory brings what rules hide in it aside, where it is
// hidden too.
func TestIgnoreRulesMakeWay(t *testing.T) {
	w, stayed := ignoring(t, Config{Rules: []string{"/p/secret\nbuild/\n"}})
	w.local.do("write /p/code 1", "write /p/secret L", "mkdir /build/x")
	w.sync()
	w.remote.do("rm /p", "write /p F", "write /build F")
	w.sync()
	if len(*stayed) != 2 {
		t.Errorf("stayed %v", *stayed)
	}
	*stayed = nil
	w.remote.want("/build 644 F", "/p 644 F")
	list := strings.Join(w.local.list(), "\n")
	if !strings.Contains(list, "/p 644 F") || !strings.Contains(list, "/secret 644 L") {
		t.Errorf("here: %s", list)
	}
	w.sync()
	w.remote.want("/build 644 F", "/p 644 F")

	w, stayed = ignoring(t, Config{Rules: []string{"*.o\n"}})
	w.local.do("write /p/code 1")
	w.sync()
	w.remote.do("write /p/r.o R")
	w.sync()
	w.local.do("rm /p", "write /p F")
	w.sync()
	list = strings.Join(w.remote.list(), "\n")
	if !strings.Contains(list, "/p 644 F") || !strings.Contains(list, "/r.o 644 R") || len(*stayed) != 1 {
		t.Errorf("there: %s, stayed %v", list, *stayed)
	}
}

// What is a file here and a directory there that a rule for directories hides is not sent, until
// that is gone.
func TestIgnoreRulesOtherKind(t *testing.T) {
	w, stayed := ignoring(t, Config{Rules: []string{"build/\n"}})
	w.remote.do("write /build/f R")
	w.sync()
	w.local.do("write /build L")
	w.sync()
	w.remote.want("/build/ 755", "/build/f 644 R")
	wantStayed(t, stayed, "there /build [/build] 0")
	w.remote.do("rm /build")
	w.sync()
	w.remote.want("/build 644 L")
	w.rest()
}

// Rules that change have both sides compared anew: nothing is lost, what is hidden stays.
func TestIgnoreRulesChange(t *testing.T) {
	w, _ := ignoring(t, Config{Rules: []string{"*.o\n"}, OnConflict: Both})
	w.local.do("write /l.o L", "write /both.o L", "write /f 1", "write /g 1")
	w.remote.do("write /r.o R", "write /both.o R")
	w.sync()
	w.local.do("rm /f")
	w.sync()
	w.cfg.Rules = []string{"g\n"}
	w.restart()
	w.sync()
	if got := strings.Join(w.local.list(), "\n"); !strings.Contains(got, "/both.o.conflict-") {
		t.Errorf("here: %s", got)
	}
	w.same()
	w.local.do("rm /g")
	w.sync()
	if !slices.Contains(w.remote.list(), "/g 644 1") {
		t.Error("what is hidden now went at the remote")
	}
	w.cfg.Rules = nil
	w.restart()
	if r := w.sync(); r.Conflicts != 1 || !slices.Contains(w.local.list(), "/g 644 1") {
		t.Errorf("%+v, here %v", r, w.local.list())
	}
	w.same()
	w.rest()
}

// Rules that change more often than is remembered are forgotten: what differs is in conflict, once, and
// nothing is lost.
func TestIgnoreRulesChangeOften(t *testing.T) {
	for _, policy := range []Policy{Theirs, Ours, Both, Fail, Hold} {
		t.Run(policy.String(), func(t *testing.T) {
			w, _ := ignoring(t, Config{OnConflict: policy, Rules: []string{"*.o\nd/\n"}})
			w.local.do("write /same 1", "write /here 1", "write /x.o L", "write /gone 1")
			w.remote.do("write /there 1", "write /x.o R", "write /d/f R")
			w.sync()
			w.local.do("write /d L")
			w.sync()
			w.local.do("write /here 2", "rm /gone")
			w.remote.do("write /there 2", "rm /d", "write /d R2")
			changeOften(t, w, maxShownRules+2)
			w.cfg.Rules = nil
			w.restart()
			kept := []string{"1", "2", "L", "R", "R2"}
			if policy == Fail {
				var conflict *ConflictError
				if _, err := w.m.Sync(t.Context()); !errors.As(err, &conflict) {
					t.Fatalf("sync: %v", err)
				}
				w.cfg.OnConflict = Both
				w.restart()
			}
			w.sync()
			all := keptTexts(w.local)
			maps.Copy(all, keptTexts(w.remote))
			for _, text := range kept {
				if !all[text] {
					t.Errorf("%s is lost: %v", text, all)
				}
			}
			if len(w.conflicts) == 0 {
				t.Error("no conflict")
			}
			w.conflicts = nil
			if policy == Hold {
				return
			}
			w.rest()
			w.remote.do("write /same 2")
			w.local.do("rm /here")
			w.sync()
			w.wantConflicts()
			w.rest()
		})
	}
}

// changeOften has other rules count, without synchronising by them.
func changeOften(t *testing.T, w *world, times int) {
	t.Helper()
	was := w.cfg.Rules
	for i := range times {
		w.cfg.Rules = []string{fmt.Sprintf("*-%d\n/never\n", i)}
		w.restart()
		if err := w.m.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.cfg.Rules = was
}

// Many files with rules change on both sides, and nothing comes to an end before they have: the same.
func TestIgnoreGitFilesChangeOften(t *testing.T) {
	w, _ := ignoring(t, Config{OnConflict: Both, GitIgnore: true})
	w.local.do("write /f 1")
	w.sync()
	peer := &pushFails{Peer: w.remote.server}
	w.cfg.Remote = peer
	for i := range maxShownRules + 4 {
		w.remote.do(fmt.Sprintf("write /.gitignore *.%d", i))
		w.local.do(fmt.Sprintf("write /sub/.gitignore *.a%d", i), fmt.Sprintf("write /g%d L%d", i, i))
		w.restart()
		if _, err := w.m.Sync(t.Context()); !errors.Is(err, errPushFails) {
			t.Fatalf("sync %d: %v", i, err)
		}
	}
	w.cfg.Remote = nil
	w.restart()
	w.sync()
	w.same()
	for i := range maxShownRules + 4 {
		if line := w.remote.line(fmt.Sprint("/g", i)); line == "" {
			t.Errorf("/g%d is not there", i)
		}
	}
	w.rest()
}

var errPushFails = errors.New("not now")

// A pushFails takes nothing.
type pushFails struct{ changes.Peer }

func (p *pushFails) Push(context.Context, changes.PushInput, changes.Stream[tree.Entry]) (changes.PushResult, error) {
	return changes.PushResult{}, errPushFails
}

func TestIgnoreGitFiles(t *testing.T) {
	w, stayed := ignoring(t, Config{GitIgnore: true, RulesFile: ".wsdignore", Rules: []string{"!forced\n"}})
	w.local.do("write /.gitignore *.log\nforced\ndist/\n", "write /.wsdignore !keep.log\n", "write /sub/.gitignore /only-here",
		"write /sub/only-here 1", "write /only-here 1", "write /a.log 1", "write /keep.log 1", "write /forced 1",
		"write /dist/.gitignore !*", "write /dist/f 1")
	w.local.do("write /.gitignore *.log", "write /.wsdignore !keep.log")
	w.sync()
	w.remote.want("/.gitignore 644 *.log", "/.wsdignore 644 !keep.log", "/dist/ 755", "/dist/.gitignore 644 !*", "/dist/f 644 1",
		"/forced 644 1", "/keep.log 644 1", "/only-here 644 1", "/sub/ 755", "/sub/.gitignore 644 /only-here")
	// A rule that comes over counts for what comes with it.
	w.remote.do("write /new/.gitignore out/", "write /new/out/f 1", "write /new/code 1")
	w.sync()
	if list := strings.Join(w.local.list(), "\n"); !strings.Contains(list, "/new/code") || strings.Contains(list, "/new/out") {
		t.Errorf("here: %s", list)
	}
	// One that is made here counts from then on.
	w.local.do("write /z/secret 1", "write /z/.gitignore secret")
	w.sync()
	if list := strings.Join(w.remote.list(), "\n"); strings.Contains(list, "/z/secret") || !strings.Contains(list, "/z/.gitignore") {
		t.Errorf("there: %s", list)
	}
	// It stays with what it hides.
	w.remote.do("rm /z")
	w.sync()
	if list := strings.Join(w.local.list(), "\n"); !strings.Contains(list, "/z/secret") || !strings.Contains(list, "/z/.gitignore") {
		t.Errorf("here: %s", list)
	}
	if len(*stayed) != 1 {
		t.Errorf("stayed %v", *stayed)
	}
	w.sync()
	if list := strings.Join(w.remote.list(), "\n"); strings.Contains(list, "/z/") {
		t.Errorf("there: %s", list)
	}
}

// The first pull to an empty side brings nothing that the files hide which it brings.
func TestIgnoreGitFilesFirst(t *testing.T) {
	w, _ := ignoring(t, Config{GitIgnore: true})
	w.remote.do("write /.gitignore *.log", "write /a.log 1", "write /b 1", "write /d/e.log 1")
	var p Plan
	p, err := w.m.Plan(t.Context(), func(Move) error { return nil })
	if err != nil || p.ToLocal != 3 || p.IgnoredHere != 0 || p.IgnoredThere != 2 {
		t.Errorf("plan %+v, %v", p, err)
	}
	w.sync()
	w.local.want("/.gitignore 644 *.log", "/b 644 1", "/d/ 755")
	// One that hides all, and itself, comes alone.
	w.remote.do("write /all/.gitignore *", "write /all/f 1")
	w.sync()
	w.local.want("/.gitignore 644 *.log", "/all/ 755", "/all/.gitignore 644 *", "/b 644 1", "/d/ 755")
	w.sync()
	w.remote.do("rm /all")
	w.sync()
	w.local.do("rm /all")
	w.remote.do("write /.gitignore nothing")
	w.sync()
	w.same()
	w.rest()
}

func TestIgnoreBadRules(t *testing.T) {
	w, _ := ignoring(t, Config{RulesFile: ".wsdignore"})
	w.local.do("write /.wsdignore [a", "write /b 1")
	var bad *RulesError
	if _, err := w.m.Sync(t.Context()); !errors.As(err, &bad) || !errors.Is(err, ignore.ErrPattern) || bad.Path != "/.wsdignore" {
		t.Fatalf("sync: %v", err)
	}
	w.remote.want()
	w.local.do("write /.wsdignore a")
	w.sync()
	w.local.do("write /.wsdignore " + strings.Repeat("a", maxRuleBytes+1))
	if _, err := w.m.Sync(t.Context()); !errors.Is(err, tree.ErrTooLarge) {
		t.Fatalf("sync: %v", err)
	}
}

// The remote is not pulled from when it has too much that rules hide one by one.
func TestIgnoreLimit(t *testing.T) {
	changed := map[string]bool{}
	for i := range maxIgnored {
		changed[fmt.Sprintf("/d/%d", i)] = true
	}
	set, err := (*ignoredSet)(nil).with(changed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.with(map[string]bool{"/d/more": true}); !errors.Is(err, ErrIgnored) {
		t.Errorf("one more: %v", err)
	}
	if set, err = set.with(map[string]bool{"/d/more": true, "/d/1": false}); err != nil || !set.has("/d/more") || set.has("/d/1") {
		t.Errorf("one for another: %v", err)
	}
	if _, err := (*ignoredSet)(nil).with(map[string]bool{"/" + strings.Repeat("a", maxIgnoredBytes): true}); !errors.Is(err, ErrIgnored) {
		t.Errorf("a long one: %v", err)
	}
}

// Rules that hide all but some: directories come and go on both sides.
func TestIgnoreAllBut(t *testing.T) {
	w, stayed := ignoring(t, Config{Rules: []string{"*\n!*/\n!*.c\n"}})
	w.local.do("write /l/x/a.c 1", "write /r/x/a.c 1", "write /k/a.c 1", "write /k/a.o 1", "write /t 1")
	w.sync()
	w.remote.want("/k/ 755", "/k/a.c 644 1", "/l/ 755", "/l/x/ 755", "/l/x/a.c 644 1", "/r/ 755", "/r/x/ 755", "/r/x/a.c 644 1")
	w.local.do("rm /l")
	w.remote.do("rm /r", "rm /k")
	w.sync()
	w.remote.want()
	w.local.want("/k/ 755", "/k/a.o 644 1", "/t 644 1")
	wantStayed(t, stayed, "here /k [/k/a.o] 0")
	w.remote.do("write /f 1")
	w.sync()
	w.local.do("mkdir /f")
	w.sync()
	wantStayed(t, stayed, "there /f [/f] 0")
	w.local.do("rm /f")
	w.sync()
	w.remote.want("/f 644 1")
	// All of it is sent once that is gone, or is compared once it is not hidden.
	w.remote.do("write /g 1", "write /h 1")
	w.sync()
	w.local.do("write /g/x/a.c 1", "write /h/x/a.c 1")
	w.sync()
	w.remote.want("/f 644 1", "/g 644 1", "/h 644 1")
	w.remote.do("rm /g")
	w.sync()
	w.remote.want("/f 644 1", "/g/ 755", "/g/x/ 755", "/g/x/a.c 644 1", "/h 644 1")
	rules := w.cfg.Rules
	w.cfg.Rules = []string{"/k\n/t\n"}
	w.cfg.OnConflict = Both
	w.restart()
	w.sync()
	list := strings.Join(w.remote.list(), "\n")
	if !strings.Contains(list, "/h 644 1") || !strings.Contains(list, "/h.conflict-") || strings.Count(list, "/x/a.c 644 1") != 2 {
		t.Errorf("there: %s", list)
	}
	for _, line := range w.remote.list() {
		if path, _, _ := strings.Cut(line, " "); path != "/f" && strings.Count(strings.TrimSuffix(path, "/"), "/") == 1 {
			w.remote.do("rm " + strings.TrimSuffix(path, "/"))
		}
	}
	w.sync()
	w.cfg.Rules = rules
	w.restart()
	w.sync()
	*stayed = nil
	// A file that is hidden makes way for a directory that is not.
	w.local.do("write /m L")
	w.sync()
	w.remote.do("write /m/a.c R")
	w.sync()
	w.remote.want("/f 644 1", "/k/ 755", "/m/ 755", "/m/a.c 644 R")
	if list := w.local.list(); len(list) != 7 || !strings.Contains(strings.Join(list, " "), "/m.conflict-") {
		t.Errorf("here: %v", list)
	}
}

// Random changes under rules that change: what is hidden stays on its side, and all is the same
// once nothing is hidden.
func TestIgnoreRandom(t *testing.T) {
	for seed := range uint64(120) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { ignoreRandom(t, rand.New(rand.NewPCG(seed, 12))) })
	}
}

func ignoreRandom(t *testing.T, r *rand.Rand) {
	w, _ := ignoring(t, Config{OnConflict: Both})
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name := func() string {
		return pick("/a", "/b", "/a/x", "/a/x.o", "/b/y.o", "/b/x/y", "/c.o", "/a/build/f", "/build", "/c/build/z.o", "/b/x/.gitignore", "/.gitignore")
	}
	rule := func() string { return pick("*.o", "build/", "/a/x", "build", "!/a/x.o", "/b/x/*", "*", "!*/") }
	var log []string
	for range 10 {
		for n := range r.IntN(5) {
			e, side := w.local, "here"
			if r.IntN(2) == 0 {
				e, side = w.remote, "there"
			}
			path, line := name(), ""
			switch r.IntN(6) {
			case 0, 1, 2:
				text := fmt.Sprint("v", len(log), n)
				if strings.HasSuffix(path, "/.gitignore") {
					text = rule()
				}
				line = "write " + path + " " + text
			case 3, 4:
				line = "rm " + path
			case 5:
				line = "mv " + path + " " + name()
			}
			e.tick()
			if e.run(line) == nil {
				log = append(log, side+": "+line)
			}
		}
		if r.IntN(3) == 0 {
			w.cfg.Rules, w.cfg.Ignore = nil, nil
			for range r.IntN(3) {
				w.cfg.Rules = append(w.cfg.Rules, rule()+"\n"+rule()+"\n")
			}
			if r.IntN(4) == 0 {
				w.cfg.Ignore = []string{"x"}
			}
			w.cfg.GitIgnore = r.IntN(2) == 0
		}
		w.cfg.OnConflict = []Policy{Both, Theirs, Ours}[r.IntN(3)]
		w.restart()
		log = append(log, fmt.Sprintf("sync %v %q %v %v", w.cfg.OnConflict, w.cfg.Rules, w.cfg.Ignore, w.cfg.GitIgnore))
		files := !w.cfg.GitIgnore // whose rules change as it goes
		here, there := texts(w.local), texts(w.remote)
		res, err := w.m.Sync(t.Context())
		if err != nil || !res.InStep {
			t.Fatalf("sync: %+v, %v\n%s", res, err, strings.Join(log, "\n"))
		}
		for _, side := range []struct {
			e      *end
			before map[string]string
		}{{w.local, here}, {w.remote, there}} {
			after := texts(side.e)
			for path, text := range side.before {
				if files && w.m.filter.hides(path, false) && !slices.Contains(values(after), text) {
					t.Fatalf("%s (%s) went\n%s", path, text, strings.Join(log, "\n"))
				}
			}
			other := there
			if side.e == w.remote {
				other = here
			}
			for path, text := range after {
				if files && w.m.filter.hides(path, false) && !slices.Contains(values(side.before), text) && slices.Contains(values(other), text) {
					t.Fatalf("%s (%s) came\n%s", path, text, strings.Join(log, "\n"))
				}
			}
		}
	}
	w.cfg = Config{OnConflict: Both}
	w.restart()
	for range 3 {
		if res, err := w.m.Sync(t.Context()); err != nil || !res.InStep {
			t.Fatalf("at the end: %+v, %v\n%s", res, err, strings.Join(log, "\n"))
		}
	}
	if diff := cmp.Diff(w.local.list(), w.remote.list()); diff != "" {
		t.Fatalf("trees (-local +remote):\n%s%s", diff, strings.Join(log, "\n"))
	}
	w.local.check()
	w.remote.check()
}

// texts are the contents of the files of an end, by path.
func texts(e *end) map[string]string {
	out := map[string]string{}
	for _, line := range e.list() {
		if f := strings.Fields(line); len(f) == 3 && f[1] != "->" {
			out[f[0]] = f[2]
		}
	}
	return out
}

func values(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// KeepRules ignores what was ignored the last time, by names and by patterns, and changes no rules.
func TestKeepRules(t *testing.T) {
	for _, rules := range []string{"node_modules\n", "*.o\n/node_modules/\n"} {
		w, _ := ignoring(t, Config{Rules: []string{rules}, RulesFile: ".wsdignore", OnConflict: Hold})
		w.local.do("write /f 1", "write /node_modules/x 1", "write /.wsdignore *.tmp", "write /a.tmp 1")
		w.sync()
		w.local.do("write /f 2")
		w.remote.do("write /f 3")
		w.sync()
		cfg := w.m.cfg
		cfg.Rules, cfg.RulesFile, cfg.KeepRules = nil, "", true
		keeping := New(cfg)
		if list, err := keeping.Conflicts(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		if r, err := keeping.Resolve(t.Context(), "/f", Ours); err != nil || r.Pushed != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		cfg.Rules, cfg.RulesFile, cfg.KeepRules = w.m.cfg.Rules, w.m.cfg.RulesFile, false
		w.m = New(cfg)
		if r := w.sync(); r.Pushed+r.Changed+r.Conflicts > 0 {
			t.Errorf("moved %+v", r)
		}
		w.remote.want("/.wsdignore 644 *.tmp", "/f 644 2")
	}
}
