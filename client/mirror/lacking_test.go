package mirror

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A damaged remote has lost some content.
type damaged struct {
	*changes.Server
	lost map[tree.Hash]bool
}

func (r *damaged) lose(texts ...string) {
	r.lost = map[tree.Hash]bool{}
	for _, text := range texts {
		r.lost[tree.Sum([]byte(text))] = true
	}
}

func (r *damaged) HasObjects(ctx context.Context, hashes []tree.Hash) ([]tree.Hash, error) {
	held, err := r.Server.HasObjects(ctx, hashes)
	return slices.DeleteFunc(held, func(h tree.Hash) bool { return r.lost[h] }), err
}

func (r *damaged) FetchObjects(ctx context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	if slices.ContainsFunc(hashes, func(h tree.Hash) bool { return r.lost[h] }) {
		return nil, tree.ErrUnknownHash
	}
	return r.Server.FetchObjects(ctx, hashes)
}

// A path whose content the remote has lost is named each time, holds up no other, and comes once
// the content is there again.
func TestLostContentIsNamed(t *testing.T) {
	w := newWorld(t, Config{})
	remote := &damaged{Server: w.remote.server}
	w.cfg.Remote = remote
	w.restart()
	w.local.do("write /f old", "write /g old", "write /h old")
	w.sync()
	w.remote.do("write /f bad", "write /g worse", "write /d/new bad", "write /h good")
	remote.lose("bad", "worse")
	want := []changes.Skipped{{Why: changes.Unreadable, Count: 3, Paths: []changes.SkippedPath{
		{Path: "/d/new", Error: "its content cannot be read there"},
		{Path: "/f", Error: "its content cannot be read there"},
		{Path: "/g", Error: "its content cannot be read there"},
	}}}
	for range 3 {
		if diff := cmp.Diff(want, w.sync().There); diff != "" {
			t.Fatalf("left out (-want +got):\n%s", diff)
		}
		w.local.want("/d/ 755", "/f 644 old", "/g 644 old", "/h 644 good")
		w.restart()
	}
	w.remote.want("/d/ 755", "/d/new 644 bad", "/f 644 bad", "/g 644 worse", "/h 644 good")

	// What is changed here takes the place of the damage only if it is to.
	w.local.do("write /g mine", "write /other 1")
	want[0].Paths[2].Error += "; the change here is not sent"
	if diff := cmp.Diff(want, w.sync().There); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	w.remote.want("/d/ 755", "/d/new 644 bad", "/f 644 bad", "/g 644 worse", "/h 644 good", "/other 644 1")
	w.cfg.OnConflict = Ours
	w.restart()
	if got := w.sync().There; len(got) != 1 || got[0].Count != 2 {
		t.Errorf("left out: %v", got)
	}
	w.cfg.OnConflict = Theirs
	w.restart()
	w.remote.want("/d/ 755", "/d/new 644 bad", "/f 644 bad", "/g 644 mine", "/h 644 good", "/other 644 1")

	remote.lose()
	w.restart()
	if got := w.sync().There; len(got) != 0 {
		t.Errorf("left out: %v", got)
	}
	w.local.want("/d/ 755", "/d/new 644 bad", "/f 644 bad", "/g 644 mine", "/h 644 good", "/other 644 1")
	w.rest()
	w.wantConflicts()
}

// A path whose lost content is removed or replaced at the remote is named no more.
func TestLostContentIsReplaced(t *testing.T) {
	w := newWorld(t, Config{})
	remote := &damaged{Server: w.remote.server}
	w.cfg.Remote = remote
	w.restart()
	w.local.do("write /f old", "write /g old")
	w.sync()
	w.remote.do("write /f bad", "write /g bad")
	remote.lose("bad")
	if got := w.sync().There; len(got) != 1 || got[0].Count != 2 {
		t.Errorf("left out: %v", got)
	}
	w.remote.do("write /f good", "rm /g")
	if got := w.sync().There; len(got) != 0 {
		t.Errorf("left out: %v", got)
	}
	w.local.want("/f 644 good")
	w.restart()
	w.rest()
	w.wantConflicts()
}

// An away remote does not have some content from when its changes are listed until it settles, as
// when somebody moves a file away and back.
type away struct {
	damaged
	listed func()
}

func (r *away) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	r.listed()
	return r.Server.FetchChanges(ctx, q)
}

func (r *away) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	if settle {
		r.lost = nil
	}
	return r.Server.Watermarks(ctx, settle)
}

// Content that a remote does not have for a moment is asked for once more: what has changed here at
// the same path is a conflict, and neither version takes the place of the other without a word.
func TestContentIsAwayForAMoment(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Both})
	remote := &away{damaged: damaged{Server: w.remote.server}, listed: func() {}}
	w.cfg.Remote = remote
	w.restart()
	w.local.do("write /f old", "write /g old")
	w.sync()
	w.remote.do("write /f theirs", "write /g new")
	w.local.do("write /f mine")
	remote.listed = func() { remote.lose("theirs", "new") }
	w.sync()
	w.wantConflicts("/f: " + hash("mine") + " / " + hash("theirs") + ", kept both copy /f.conflict-" + copyHash("mine"))
	w.local.want("/f 644 theirs", "/f.conflict-"+copyHash("mine")+" 644 mine", "/g 644 new")
	remote.listed = func() {}
	w.sync()
	w.same()
}

// What has changed here at, above or below a path whose content the remote cannot read for a while
// does not take its place without a word: the version is there once it can be read, or kept.
func TestUnreadableContentIsNotReplaced(t *testing.T) {
	for name, do := range map[string][]string{
		"written": {"write /d/f mine"}, "removed": {"rm /d/f"}, "directory removed": {"rm /d"}, "directory renamed": {"mv /d /e"},
		"directory becomes a file": {"rm /d", "write /d mine"}, "becomes a directory": {"rm /d/f", "write /d/f/x mine"}, "link": {"rm /d/f", "ln to /d/f"},
	} {
		for mode, cfg := range map[string]Config{
			"theirs": {OnConflict: Theirs}, "both": {OnConflict: Both}, "ours": {OnConflict: Ours}, "hold": {OnConflict: Hold},
			"undo": {Undo: true}, "guard": {Guard: true, OnConflict: Hold},
		} {
			for _, when := range []string{"before", "after"} { // the remote's version is found to be lacking
				t.Run(name+", "+mode+", "+when, func(t *testing.T) {
					w := newWorld(t, cfg)
					remote := &damaged{Server: w.remote.server}
					w.cfg.Remote = remote
					w.restart()
					w.local.do("write /d/f old", "write /other 1")
					w.sync()
					w.remote.do("write /d/f theirs")
					remote.lose("theirs")
					if when == "after" {
						w.sync()
					}
					w.local.do(do...)
					for range 2 {
						w.sync()
						w.nothingPends()
						w.restart()
					}
					if got := w.remote.line("/d/f"); got != "/d/f 644 theirs" && mode != "ours" {
						t.Errorf("while it cannot be read: %q, %q", got, w.remote.list())
					}
					remote.lose()
					for range 3 {
						w.sync()
						w.restart()
					}
					found := mode == "ours" // they are told that it goes
					for _, e := range []*end{w.local, w.remote} {
						for _, line := range e.list() {
							found = found || strings.HasSuffix(line, " theirs")
						}
						for _, text := range e.losers() {
							found = found || strings.Contains(text, "theirs")
						}
					}
					if !found {
						t.Errorf("it is nowhere: here %q, there %q", w.local.list(), w.remote.list())
					}
					if mode != "hold" && mode != "guard" {
						w.same()
					}
				})
			}
		}
	}
}

// A watch finds out that the remote can read content again, also if nothing else changes.
func TestContentIsReadableAgain(t *testing.T) {
	w := newWorld(t, Config{})
	remote := &damaged{Server: w.remote.server}
	w.cfg.Remote = remote
	w.restart()
	w.local.do("write /f old", "write /g old")
	w.sync()
	w.remote.do("write /f new", "write /g newer")
	remote.lose("new", "newer")
	w.sync()
	pending := func(want bool) {
		t.Helper()
		if got, err := w.m.RemotePending(t.Context()); got != want || err != nil {
			t.Errorf("pending: %v, %v, want %v", got, err, want)
		}
	}
	pending(false)
	w.sync()
	pending(false)
	remote.lose("newer")
	pending(true)
	w.sync()
	w.local.want("/f 644 new", "/g 644 old")
	pending(false)
	remote.lose()
	pending(true)
	w.sync()
	pending(false)
	w.rest()
}

// What has changed here at a path whose content the remote could not read does not go with that path, or
// a directory above it, when the remote removes, renames or replaces it.
func TestUnreadableContentIsRemoved(t *testing.T) {
	for name, do := range map[string]string{"path": "rm /d/f", "directory": "rm /d", "renamed": "mv /d /e", "replaced": "swap /d"} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, restarts), func(t *testing.T) {
				w := newWorld(t, Config{OnConflict: Both})
				remote := &damaged{Server: w.remote.server}
				w.cfg.Remote = remote
				w.restart()
				w.local.do("write /d/f old", "write /other 1")
				w.sync()
				w.remote.do("write /d/f theirs")
				remote.lose("theirs")
				w.local.do("write /d/f mine")
				w.sync()
				if do == "swap /d" {
					w.remote.do("rm /d", "write /d file")
				} else {
					w.remote.do(do)
				}
				for range 2 {
					if restarts {
						w.restart()
					}
					w.sync()
				}
				found := false
				for _, e := range []*end{w.local, w.remote} {
					for _, line := range append(e.list(), e.losers()...) {
						found = found || strings.HasSuffix(line, " mine")
					}
				}
				if !found {
					t.Errorf("it is nowhere: here %q, there %q", w.local.list(), w.remote.list())
				}
				remote.lose()
				w.restart()
				w.sync()
				w.same()
			})
		}
	}
}
