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

// newWorlds are two clients of one server. The revisions of the second one are higher.
func newWorlds(t *testing.T, cfg Config) (a, b *world) {
	t.Helper()
	remote := newEnd(t, 1000)
	a = &world{t: t, local: newEnd(t, 100), remote: remote, cfg: cfg}
	b = &world{t: t, local: newEnd(t, 5000), remote: remote, cfg: cfg}
	a.restart()
	b.restart()
	return a, b
}

// agree runs lines at the second client, and has both agree.
func agree(a, b *world, lines ...string) {
	b.local.do("write /of-b 1")
	b.local.do(lines...)
	b.sync()
	a.sync()
	b.sync()
}

// A directory that becomes a file at one client is one everywhere.
func TestF1DirectoryBecomesFileOfTwoClients(t *testing.T) {
	for name, line := range map[string]string{"file": "write /ee F", "link": "ln target /ee", "gone": "mkdir /other"} {
		t.Run(name, func(t *testing.T) {
			a, b := newWorlds(t, Config{})
			agree(a, b, "mkdir /ee/sub/deeper", "write /ee/f 1")
			a.local.do("rm /ee", line)
			a.sync()
			a.restart()
			a.local.do("write /more 1")
			a.restWith(b)
		})
	}
}

// restWith wants both clients and the server to be the same once each client has synchronised.
func (w *world) restWith(b *world) {
	w.t.Helper()
	w.sync()
	b.sync()
	w.rest()
	b.rest()
}

// eachServer runs a test with a server of ours, and with one that looks at no base.
func eachServer(t *testing.T, cfg Config, fn func(t *testing.T, a, b *world)) {
	t.Helper()
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprintf("mute %t", mute), func(t *testing.T) {
			a, b := newWorlds(t, cfg)
			for _, w := range []*world{a, b} {
				w.cfg.Remote = &cutter{Peer: w.remote.server, left: -1, mute: mute}
				w.restart()
			}
			fn(t, a, b)
			a.restWith(b)
		})
	}
}

// A removal that was decided for is one everywhere, whatever it was that was removed.
func TestF2RemovalIsKeptOfTwoClients(t *testing.T) {
	eachServer(t, Config{OnConflict: Ours}, func(t *testing.T, a, b *world) {
		agree(a, b, "write /f 1", "write /d/x 1", "ln 1 /l")
		a.local.do("rm /f", "rm /d", "rm /l")
		b.local.do("write /f 2", "chmod /d 700", "write /d/x 2", "rm /l", "ln 2 /l")
		b.sync()
		if r := a.sync(); r.Conflicts == 0 {
			t.Errorf("%+v", r)
		}
		b.sync()
		a.remote.want("/of-b 644 1")
	})
}

// So is one that was decided for behind a push whose answer was lost.
func TestF2RemovalIsKeptBehindALostAnswer(t *testing.T) {
	eachServer(t, Config{OnConflict: Ours}, func(t *testing.T, a, b *world) {
		agree(a, b, "write /f 1", "write /s 1", "write /g 1")
		a.local.do("rm /g", "rm /f", "rm /s")
		deaf := &deaf{Peer: a.cfg.Remote}
		a.cfg.Remote = deaf
		a.restart()
		if _, err := a.m.Sync(t.Context()); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		a.cfg.Remote = deaf.Peer
		a.restart()
		b.sync()
		b.local.do("write /f 2", "write /s 2", "chmod /s 4755")
		b.sync()
		a.sync()
		b.sync()
		a.remote.want("/of-b 644 1")
	})
}

// deaf is a Peer that loses the answers to pushes.
type deaf struct{ changes.Peer }

func (d *deaf) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	if _, err := d.Peer.Push(ctx, in, entries); err != nil {
		return changes.PushResult{}, err
	}
	return changes.PushResult{}, errCut
}

// What was changed before it was removed is removed.
func TestF2RemovalOfWhatWasChangedOfTwoClients(t *testing.T) {
	eachServer(t, Config{}, func(_ *testing.T, a, b *world) {
		agree(a, b, "write /f 1", "write /d/x 1")
		a.local.do("write /f 2", "rm /f", "write /d/x 2", "chmod /d 700", "rm /d")
		a.sync()
		b.sync()
		a.remote.want("/of-b 644 1")
	})
}

// What differs here only by the bits that were withheld can be removed from here.
func TestF2RemovalOfWithheldModesOfTwoClients(t *testing.T) {
	eachServer(t, Config{}, func(_ *testing.T, a, b *world) {
		a.remote.do("write /s 1", "chmod /s 4755", "write /d/s 1", "chmod /d 1777")
		agree(a, b)
		a.local.do("rm /s", "rm /d")
		a.sync()
		b.sync()
		a.remote.want("/of-b 644 1")
	})
}

// A directory that stays where another client has made a file of it is whole at the server.
func TestF5DirectoryStaysForAFile(t *testing.T) {
	for name, fn := range map[string]func(*testing.T, *world){
		"ours": func(_ *testing.T, b *world) {
			b.cfg.OnConflict = Ours
			b.restart()
			b.sync()
		},
		"undo": func(_ *testing.T, b *world) {
			b.cfg.Undo = true
			b.restart()
			b.sync()
			b.cfg.Undo = false
			b.restart()
		},
		"held, then ours": func(t *testing.T, b *world) {
			t.Helper()
			b.cfg.OnConflict = Hold
			b.restart()
			b.sync()
			if _, err := b.m.Resolve(t.Context(), "/a", Ours); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, line := range []string{"write /a F", "ln target /a"} {
			for _, change := range []string{"write /a/new 2", "write /a/s/x 2", "chmod /a/s 700"} {
				t.Run(name+" "+change, func(t *testing.T) {
					a, b := newWorlds(t, Config{OnConflict: Ours})
					b.local.do("write /a/s/x 1", "write /a/y 1", "mkdir /a/empty", "ln y /a/l")
					b.sync()
					a.local.do(line) // where it has seen no directory
					a.sync()
					b.local.do(change)
					want := b.local.list()
					fn(t, b)
					b.local.want(want...)
					a.restWith(b)
					a.local.want(want...)
				})
			}
		}
	}
}

// What is in a directory that becomes a file counts as removed, however often the server lists
// it, but not what is ignored.
func TestF5MayDeleteCountsADirectoryThatBecomesAFile(t *testing.T) {
	for name, seen := range map[string]bool{"without deletes": false, "with deletes": true} {
		t.Run(name, func(t *testing.T) {
			a, b := newWorlds(t, Config{OnConflict: Ours, Ignore: []string{"ig"}})
			for i := range 8 {
				b.local.do(fmt.Sprintf("write /a/f%d %d", i, i))
			}
			b.local.do("write /a/ig/x i", "write /a/g/ig i", "write /other 1")
			b.sync()
			if seen {
				a.sync()
				a.local.do("rm /a")
			}
			a.local.do("write /a F")
			a.sync()
			b.cfg.MayDelete = func(n, of int) bool { return 2*n <= of }
			b.restart()
			want := b.local.list()
			_, err := b.m.Sync(t.Context())
			got, _ := errors.AsType[*DeletesError](err)
			if diff := cmp.Diff(&DeletesError{Count: 8, Of: 9, Names: []string{"/a/f0", "/a/f1", "/a/f2", "/a/f3", "/a/f4"}}, got); diff != "" {
				t.Fatalf("%v (-want +got):\n%s", err, diff)
			}
			b.local.want(want...)
			b.cfg.MayDelete = nil
			b.restart()
			b.sync()
			if got := b.local.line("/a"); got != "/a 644 F" {
				t.Errorf("it is %q", got)
			}
		})
	}
}
