package mirror

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A failing Peer fails at its push number n, after it has applied it if applies is set.
type failing struct {
	changes.Peer
	n       int
	applies bool
}

var errFailing = errors.New("it fails")

func (f *failing) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (r changes.PushResult, err error) {
	f.n--
	if f.n != 0 || f.applies {
		r, err = f.Peer.Push(ctx, in, entries)
	} else {
		entries.Close(nil)
	}
	if f.n == 0 {
		return changes.PushResult{}, errors.Join(err, errFailing)
	}
	return r, err
}

// A row that the other side has never had counts neither as removed nor as one of all.
func TestMayDeleteUnsent(t *testing.T) {
	half := func(n, of int) bool { return of <= 4 || 2*n <= of }
	for name, tt := range map[string]struct {
		fails       failing
		here, there []string
		want        *DeletesError // nil: all goes
	}{
		"nothing was sent": {fails: failing{n: 1}, here: []string{"rm /d"}},
		"the answer was lost": {
			fails: failing{n: 1, applies: true}, here: []string{"rm /d"},
			want: &DeletesError{Remote: true, Count: 5, Of: 5, Names: []string{"/d/f0", "/d/f1", "/d/f2", "/d/f3", "/d/f4"}},
		},
		"what was not sent is removed": {fails: failing{n: 2}, here: []string{"rm /d/f5", "rm /d/f6", "rm /d/f7", "rm /e"}},
		"half of what was sent is removed": {
			fails: failing{n: 2}, here: []string{"rm /e", "rm /d/f0", "rm /d/f1", "rm /d/f2"},
			want: &DeletesError{Remote: true, Count: 3, Of: 5, Names: []string{"/d/f0", "/d/f1", "/d/f2"}},
		},
		"some of what was sent is renamed": {fails: failing{n: 2}, here: []string{"rm /e", "mv /d/f0 /x", "mv /d/f1 /y", "rm /d/f2"}},
		"what was sent is removed there": {
			fails: failing{n: 2}, there: []string{"rm /d/f0", "rm /d/f1", "rm /d/f2"},
			want: &DeletesError{Count: 3, Of: 5, Names: []string{"/d/f0", "/d/f1", "/d/f2"}},
		},
		"the directory that was sent is removed there": {
			fails: failing{n: 2, applies: true}, there: []string{"rm /d", "write /other 1"},
			want: &DeletesError{Count: 8, Of: 10, Names: []string{"/d/f0", "/d/f1", "/d/f2", "/d/f3", "/d/f4"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := tt.fails
			w := newWorld(t, Config{MayDelete: half})
			f.Peer = w.remote.server
			w.cfg.Remote = &f
			l := standard
			l.entries = 6
			w.limits = &l
			for i := range 8 {
				w.local.do(fmt.Sprintf("write /d/f%d d%d", i, i))
			}
			for i := range 8 {
				w.local.do(fmt.Sprintf("write /e/f%d e%d", i, i))
			}
			w.restart()
			if _, err := w.m.Sync(t.Context()); !errors.Is(err, errFailing) {
				t.Fatal(err)
			}
			w.local.do(tt.here...)
			w.remote.do(tt.there...)
			here, there := w.local.list(), w.remote.list()
			w.restart()
			_, p, err := w.plan()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, p.TooMany); diff != "" {
				t.Errorf("the plan (-want +got):\n%s", diff)
			}
			w.restart()
			_, err = w.m.Sync(t.Context())
			got, _ := errors.AsType[*DeletesError](err)
			if diff := cmp.Diff(tt.want, got); diff != "" || (err == nil) != (tt.want == nil) {
				t.Fatalf("%v (-want +got):\n%s", err, diff)
			}
			if tt.want != nil {
				w.local.want(here...)
				w.remote.want(there...)
				w.cfg.MayDelete = nil
				w.restart()
				w.sync()
			}
			w.rest()
		})
	}
}

// What the remote has and was not pulled yet is none of what both sides had.
func TestMayDeleteNotPulled(t *testing.T) {
	w := newWorld(t, Config{MayDelete: func(n, of int) bool { return of <= 4 || 2*n <= of }})
	for i := range 6 {
		w.remote.do(fmt.Sprintf("write /d/f%d 1", i))
	}
	w.sync()
	for i := range 20 {
		w.remote.do(fmt.Sprintf("write /e/f%d 1", i))
	}
	w.local.do("rm /d")
	there := w.remote.list()
	_, err := w.m.Sync(t.Context())
	got, _ := errors.AsType[*DeletesError](err)
	if diff := cmp.Diff(&DeletesError{Remote: true, Count: 6, Of: 6, Names: []string{"/d/f0", "/d/f1", "/d/f2", "/d/f3", "/d/f4"}}, got); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	w.remote.want(there...)
}

// Links count as files do, also where nearly all is links.
func TestMayDeleteLinks(t *testing.T) {
	w := newWorld(t, Config{MayDelete: func(n, of int) bool { return of <= 4 || 2*n <= of }})
	w.local.do("mkdir /d", "ln nowhere /d/a", "ln nowhere /d/b", "ln nowhere /d/c", "ln nowhere /d/d", "write /f 1")
	w.sync()
	w.remote.do("rm /d")
	_, err := w.m.Sync(t.Context())
	got, _ := errors.AsType[*DeletesError](err)
	if diff := cmp.Diff(&DeletesError{Count: 4, Of: 5, Names: []string{"/d/a", "/d/b", "/d/c", "/d/d"}}, got); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
