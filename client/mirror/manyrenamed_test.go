package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// F2: a directory that was renamed takes along what is ignored in it, also when its paths are more
// than one block or batch has, and when the run is cut off between any two of them.
func TestRenameOfManyTakesWhatIsIgnoredAlong(t *testing.T) {
	for name, tt := range map[string]struct{ from, to string }{
		"removals first":  {"/d", "/e"},
		"new paths first": {"/y", "/a"},
		"to deeper":       {"/d", "/p/q/e"},
		"from deeper":     {"/p/q/d", "/e"},
	} {
		for _, remote := range []bool{false, true} {
			for _, size := range []int{1, 3, 9} {
				for _, cut := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s remote=%v blocks of %d cut=%v", name, remote, size, cut), func(t *testing.T) {
						w := newWorld(t, Config{Ignore: []string{".env", "node_modules"}})
						l := standard
						l.entries = size
						w.limits = &l
						if cut {
							w.cfg.Remote = &cutting{Peer: w.remote.server, every: 2}
						}
						w.restart()
						actor, keeper := w.local, w.remote
						if remote {
							actor, keeper = keeper, actor
						}
						actor.do("mkdir /p/q", "write /p/x x")
						for i := range 4 {
							for _, dir := range []string{"", "/b", "/s/t"} {
								actor.do(fmt.Sprintf("write %s%s/f%d %d", tt.from, dir, i, i))
							}
						}
						syncCut(w)
						for _, path := range []string{"/.env", "/b/node_modules/n/m", "/s/t/.env"} {
							keeper.do("write " + tt.from + path + " secret")
						}
						actor.do("mv " + tt.from + " " + tt.to)
						if r := syncCut(w); r.Stayed != 0 {
							t.Errorf("%d stayed", r.Stayed)
						}
						w.same()
						for _, line := range keeper.list() {
							if strings.HasPrefix(line, tt.from+"/") {
								t.Errorf("%s is left", line)
							}
						}
						for _, path := range []string{"/.env", "/b/node_modules/n/m", "/s/t/.env"} {
							if got := keeper.line(tt.to + path); got != tt.to+path+" 644 secret" {
								t.Errorf("%s is %q", tt.to+path, got)
							}
						}
						w.cfg.Remote = nil
						w.restart()
						w.sync()
						w.rest()
					})
				}
			}
		}
	}
}

// cutting is a peer whose connection is cut off behind every few pushes and fetched entries.
type cutting struct {
	changes.Peer
	every, n int
}

var errCutOff = errors.New("cut off")

func (c *cutting) cut() error {
	if c.n++; c.n%c.every == 0 {
		return errCutOff
	}
	return nil
}

func (c *cutting) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	r, err := c.Peer.Push(ctx, in, entries)
	if err == nil {
		err = c.cut()
	}
	return r, err
}

func (c *cutting) FetchObjects(ctx context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	if err := c.cut(); err != nil {
		return nil, err
	}
	return c.Peer.FetchObjects(ctx, hashes)
}

// syncCut syncs until nothing cuts it off, each time as after a crash.
func syncCut(w *world) Result {
	w.t.Helper()
	stayed := 0
	for range 200 {
		r, err := w.m.Sync(context.Background())
		stayed += r.Stayed
		if err == nil {
			r.Stayed = stayed
			return r
		}
		if !errors.Is(err, errCutOff) {
			w.t.Fatalf("sync: %v", err)
		}
		w.restart()
	}
	w.t.Fatalf("it does not come to an end")
	return Result{}
}

// Paths that rules ignore go along as well, also to where there was something once, and with a
// directory that was renamed before the one that it was in.
func TestRenameTakesWhatRulesHideAlong(t *testing.T) {
	for _, policy := range []Policy{Theirs, Ours, Both} {
		for _, remote := range []bool{false, true} {
			for _, size := range []int{1, 2, 1000} {
				t.Run(fmt.Sprintf("%s remote=%v blocks of %d", policy, remote, size), func(t *testing.T) {
					w := newWorld(t, Config{OnConflict: policy, Rules: []string{"*.env", "lib/"}})
					l := standard
					l.entries = size
					w.limits = &l
					w.restart()
					actor, keeper := w.local, w.remote
					if remote {
						actor, keeper = keeper, actor
					}
					actor.do("write /d/a a", "write /d/sub/a a", "write /d/sub/b b")
					w.sync()
					keeper.do("write /d/x.env 1", "write /d/lib/n 2", "write /d/sub/y.env 3", "write /d/sub/lib/n 4", "write /d/lib/x.env 5",
						"write /e/x.env old", "rm /e/x.env", "rm /e")
					w.sync()
					actor.do("mv /d/sub /f", "mv /d /e")
					if r := w.sync(); r.Stayed != 0 || r.Conflicts != 0 {
						t.Errorf("%+v", r)
					}
					keeper.want("/e/ 755", "/e/a 644 a", "/e/lib/ 755", "/e/lib/n 644 2", "/e/lib/x.env 644 5", "/e/x.env 644 1",
						"/f/ 755", "/f/a 644 a", "/f/b 644 b", "/f/lib/ 755", "/f/lib/n 644 4", "/f/y.env 644 3")
					actor.want("/e/ 755", "/e/a 644 a", "/f/ 755", "/f/a 644 a", "/f/b 644 b")
				})
			}
		}
	}
}

// A remote that has a directory go where names make programs run code takes nothing there that is
// ignored and is none where it is.
func TestRenameTakesNothingToWhereItIsCode(t *testing.T) {
	for _, size := range []int{1, 1000} {
		w := newWorld(t, Config{Ignore: []string{"config", "pre-commit", "lib", ".env"}})
		l := standard
		l.entries = size
		w.limits = &l
		w.restart()
		w.remote.do("write /d/hooks/a a", "write /d/b b")
		w.sync()
		w.local.do("write /d/config evil", "write /d/hooks/pre-commit evil", "write /d/lib/hooks/x evil", "write /d/.env fine")
		w.remote.do("mv /d /.git")
		w.sync()
		var got []string
		for _, line := range w.local.list() {
			if !strings.HasSuffix(line, "/ 755") {
				got = append(got, line)
			}
		}
		want := []string{"/.git/.env 644 fine", "/.git/b 644 b", "/d/config 644 evil", "/d/hooks/pre-commit 644 evil", "/d/lib/hooks/x 644 evil"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("blocks of %d: here (-want +got):\n%s", size, diff)
		}
	}
}

// A remote that lies about renames takes nothing away that is ignored.
func TestLyingRenamesTakeNothingAway(t *testing.T) {
	renamed := func(path, to string) tree.Entry { return tree.Entry{Kind: tree.KindDelete, Path: path, RenamedTo: to} }
	gone := func(path string) tree.Entry { return tree.Entry{Kind: tree.KindDelete, Path: path} }
	evil := func(path string) tree.Entry {
		return tree.Entry{Kind: tree.KindFile, Path: path, Mode: 0o644, Size: 4, Parts: []tree.Part{{Hash: tree.Sum([]byte("evil")), Size: 4}}}
	}
	dir := func(path string) tree.Entry { return tree.Entry{Kind: tree.KindDir, Path: path, Mode: 0o755} }
	for name, list := range map[string][]tree.Entry{
		"two to one":               {renamed("/d", "/x"), renamed("/g", "/x")},
		"one into the other":       {renamed("/d", "/x"), renamed("/g", "/x/lib")},
		"into itself":              {renamed("/d", "/d/x"), renamed("/g", "/g")},
		"to the root":              {renamed("/d", "/"), renamed("/g", "/")},
		"to what is removed":       {renamed("/d", "/x"), gone("/x"), renamed("/g", "/y/z"), gone("/y")},
		"to what is removed first": {gone("/x"), renamed("/d", "/x"), gone("/y"), renamed("/g", "/y/z")},
		"it is removed":            {renamed("/d", "/x"), gone("/x/.env"), renamed("/g", "/y"), gone("/y/lib"), gone("/y/lib/.env")},
		"it is written":            {renamed("/d", "/x"), evil("/x/.env"), renamed("/g", "/y"), evil("/y/.env"), evil("/y/lib")},
		"it is written into":       {renamed("/d", "/x"), evil("/x/lib/.env"), renamed("/g", "/y"), evil("/y/lib/a"), evil("/y/.env/x")},
		"a file in its place":      {renamed("/d", "/x"), evil("/x"), renamed("/g", "/y/z"), evil("/y")},
		"a file, then it":          {evil("/x"), renamed("/d", "/x"), evil("/y"), renamed("/g", "/y/z")},
		"to the other":             {renamed("/d", "/g"), renamed("/g", "/d")},
		"to the other, which is":   {renamed("/d", "/g/x"), renamed("/g", "/x"), dir("/g"), dir("/g/x")},
		"both of one":              {renamed("/d", "/x"), renamed("/d/sub", "/y"), gone("/g")},
		"of a file":                {renamed("/d/a", "/x"), renamed("/g/.env", "/y"), renamed("/g/lib", "/z")},
	} {
		for _, policy := range []Policy{Theirs, Ours, Both} {
			for _, size := range []int{1, 2, 1000} {
				t.Run(fmt.Sprintf("%s %s blocks of %d", name, policy, size), func(t *testing.T) {
					w := newWorld(t, Config{OnConflict: policy, Ignore: []string{".env", "lib"}})
					l := standard
					l.entries = size
					w.limits = &l
					w.restart()
					w.remote.do("write /d/a a", "write /d/sub/a a", "write /g/a a")
					w.sync()
					w.local.do("write /d/.env secret-1", "write /d/sub/.env secret-2", "write /d/lib/.env secret-3", "write /g/.env secret-4", "write /g/lib/.env secret-5")
					w.remote.do("write /evil evil")
					w.cfg.Remote = &storyteller{Peer: w.remote.server, list: list}
					w.restart()
					_, err := w.m.Pull(t.Context())
					if err != nil {
						t.Logf("pull: %v", err)
					}
					have := strings.Join(w.local.list(), "\n")
					err = lost.List(t.Context(), w.local.forest, 0, func(v *lost.Version) error {
						for _, p := range v.Entry.Parts {
							text, err := w.local.forest.Chunk(t.Context(), p.Hash, nil)
							if err != nil {
								return err
							}
							have += "\nlost " + v.Path + " " + string(text)
						}
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					for i := 1; i <= 5; i++ {
						if !strings.Contains(have, fmt.Sprintf("secret-%d", i)) {
							t.Errorf("secret-%d is gone:\n%s", i, have)
						}
					}
					w.local.check()
				})
			}
		}
	}
}

// A storyteller is a Peer whose changes are a list, each of a revision of its own.
type storyteller struct {
	changes.Peer
	list []tree.Entry
}

func (s *storyteller) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	w, err := s.Peer.Watermarks(ctx, settle)
	w.CurrentRev += int64(len(s.list))
	return w, err
}

func (s *storyteller) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	w, err := s.Watermarks(ctx, false)
	if err != nil {
		return nil, err
	}
	f := &changes.Fetch{Current: tree.At(w.CurrentRev), AppliedPush: w.Fetch}
	var list []tree.Entry
	for i, e := range s.list {
		if e.Rev = w.CurrentRev - int64(len(s.list)-1-i); changes.After(&e).Compare(q.After) > 0 {
			list = append(list, e)
		}
	}
	f.Entries = changes.FromSlice(list)
	return f, nil
}
