package mirror

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

// wantNoRoot has each call that synchronises fail, and change nothing.
func (w *world) wantNoRoot(want *RootError) {
	w.t.Helper()
	here, there := w.local.list(), w.remote.list()
	for name, call := range map[string]func() error{
		"sync": func() error { _, err := w.m.Sync(w.local.context()); return err },
		"tick": func() error { _, err := w.m.Tick(w.local.context()); return err },
		"pull": func() error { _, err := w.m.Pull(w.local.context()); return err },
		"plan": func() error { _, err := w.m.Plan(w.local.context(), func(Move) error { return nil }); return err },
		"root": func() error { return w.m.Root(w.local.context()) },
	} {
		w.restart()
		err := call()
		want := *want
		if name == "root" {
			want.RenamedTo = ""
		}
		got, ok := errors.AsType[*RootError](err)
		if !ok || cmp.Diff(&want, got) != "" {
			w.t.Errorf("%s: got %v, want %+v", name, err, want)
		}
	}
	if diff := cmp.Diff(here, w.local.list()) + cmp.Diff(there, w.remote.list()); diff != "" {
		w.t.Errorf("something has changed: %s", diff)
	}
}

// What stands in the place of the directory, or above it, is not replaced.
func TestFirstARootIsNoDirectory(t *testing.T) {
	for name, tt := range map[string]struct {
		make string
		want RootError
	}{
		"a file":              {"write /w/r 1", RootError{"/w/r", "/w/r", tree.KindFile, ""}},
		"a link":              {"ln to /w/r", RootError{"/w/r", "/w/r", tree.KindSymlink, ""}},
		"a file above it":     {"write /w 1", RootError{"/w/r", "/w", tree.KindFile, ""}},
		"a link far above it": {"ln elsewhere /w", RootError{"/w/r", "/w", tree.KindSymlink, ""}},
	} {
		for mode, cfg := range map[string]Config{
			"both ways": {}, "fail": {OnConflict: Fail}, "mirror": {Undo: true}, "guard": {Guard: true, OnConflict: Hold}, "may empty": {MayEmpty: true},
			"blank": {Blank: true}, "files with rules": {RulesFile: ".rules"},
		} {
			t.Run(name+", "+mode, func(t *testing.T) {
				cfg.LocalRoot, cfg.RemoteRoot = "/here", "/w/r"
				w := newWorld(t, cfg)
				w.local.do("write /here/a 1")
				w.remote.do("write /other 1", tt.make)
				w.wantNoRoot(&tt.want)
				for what, call := range map[string]func() error{
					"contact": func() error { _, err := w.m.Contact(t.Context()); return err },
					"blank":   func() error { _, err := w.m.Blank(t.Context()); return err },
				} {
					if _, ok := errors.AsType[*RootError](call()); !ok {
						t.Errorf("%s finds nothing", what)
					}
				}
				w.restart()
				if _, err := w.m.Push(t.Context()); err != nil && !errors.Is(err, ErrNotBlank) {
					t.Errorf("push: %v", err)
				}
				if w.remote.line("/w/r/a") != "" {
					t.Errorf("it was replaced: %q", w.remote.list())
				}
			})
		}
	}
}

// A directory that both sides had and the remote has removed, renamed or replaced does not take with
// it what is here.
func TestFirstBRootIsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		do   []string
		want RootError
	}{
		"removed":          {[]string{"rm /w/r"}, RootError{"/w/r", "/w/r", tree.KindDelete, ""}},
		"renamed":          {[]string{"mv /w/r /w/s"}, RootError{"/w/r", "/w/r", tree.KindDelete, "/w/s"}},
		"replaced":         {[]string{"rm /w/r", "write /w/r 1"}, RootError{"/w/r", "/w/r", tree.KindFile, ""}},
		"replaced above":   {[]string{"rm /w", "ln to /w"}, RootError{"/w/r", "/w", tree.KindSymlink, ""}},
		"changed, removed": {[]string{"write /w/r/a 2", "write /w/r/n 2", "rm /w/r"}, RootError{"/w/r", "/w/r", tree.KindDelete, ""}},
	} {
		for mode, cfg := range map[string]Config{
			"both ways": {}, "fail": {OnConflict: Fail}, "theirs": {OnConflict: Theirs}, "guard": {Guard: true, OnConflict: Hold}, "files with rules": {RulesFile: ".rules"},
			"few": {MayDelete: func(int, int) bool { return false }},
		} {
			t.Run(name+", "+mode, func(t *testing.T) {
				cfg.LocalRoot, cfg.RemoteRoot = "/here", "/w/r"
				w := newWorld(t, cfg)
				w.local.do("write /here/a 1", "write /here/d/b 1", "write /here/.rules #")
				w.sync()
				if err := w.remote.tree.Share(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.remote.do(tt.do...)
				w.wantNoRoot(&tt.want)
				w.local.do("write /here/a 3", "rm /here/d")
				w.wantNoRoot(&tt.want)
			})
		}
	}
}

// Nothing of a long list of removals is brought before it is known that the root is one of them.
func TestFirstBRootIsGoneWithMuch(t *testing.T) {
	w := newWorld(t, Config{LocalRoot: "/here", RemoteRoot: "/w/r"})
	w.smallBlocks()
	for i := range smallEntries + 50 {
		w.local.do(fmt.Sprintf("write /here/%04d m", i))
	}
	w.sync()
	for i := range smallEntries + 10 {
		w.remote.do(fmt.Sprintf("rm /w/r/%04d", i))
	}
	w.remote.do("rm /w/r")
	w.wantNoRoot(&RootError{"/w/r", "/w/r", tree.KindDelete, ""})
}

// With Undo the directory is made again, with MayEmpty what is here goes too.
func TestFirstBRootAgain(t *testing.T) {
	for name, cfg := range map[string]Config{"undo": {Undo: true}, "may empty": {MayEmpty: true}} {
		t.Run(name, func(t *testing.T) {
			cfg.LocalRoot, cfg.RemoteRoot = "/here", "/w/r"
			w := newWorld(t, cfg)
			w.local.do("write /here/a 1", "write /here/d/b 1")
			w.sync()
			w.remote.do("rm /w/r")
			w.sync()
			if cfg.Undo {
				w.remote.want("/w/ 755", "/w/r/ 755", "/w/r/a 644 1", "/w/r/d/ 755", "/w/r/d/b 644 1")
			} else {
				w.local.want("/here/ 755")
			}
			w.cfg.Undo, w.cfg.MayEmpty = false, false
			w.restart()
			if r := w.sync(); r.moved() {
				t.Errorf("it moves %+v", r)
			}
		})
	}
}

// A directory that is not there yet is made, also where one was removed before both met; one that the
// remote's store has lost comes back.
func TestFirstBRootIsNew(t *testing.T) {
	for name, before := range map[string][]string{"never there": {"write /other 1"}, "removed": {"write /w/r/old 1", "rm /w/r"}, "removed above": {"write /w/r/old 1", "rm /w"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{LocalRoot: "/here", RemoteRoot: "/w/r"})
			w.remote.do(before...)
			w.local.do("write /here/a 1")
			w.sync()
			if got := w.remote.line("/w/r/a"); got != "/w/r/a 644 1" {
				t.Errorf("got %q", got)
			}
			w.lose(w.remote, 7000)
			w.sync()
			if !slices.Contains(w.remote.list(), "/w/r/a 644 1") {
				t.Errorf("got %q", w.remote.list())
			}
		})
	}
}
