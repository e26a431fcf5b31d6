package mirror

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// lose puts a new store into the place of an end's.
func (w *world) lose(e *end, first int64) {
	e.open(tree.NewMemory(), first)
	w.restart()
}

// All goes to a remote that has lost its store, and what others put there since comes here.
func TestRemoteLost(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /a/f one", "mkdir /e", "ln f /a/l")
	w.remote.do("write /r two")
	w.sync()
	before := w.local.list()
	w.lose(w.remote, 5000)
	w.sync()
	w.local.want(before...)
	w.rest()
	w.wantConflicts()

	// One that has been used already, and whose revisions are ahead of what we know.
	w.local.do("write /a/f late") // which the lost store had not heard of
	*w.remote.clock = w.local.clock.Add(-aWhile / 2)
	w.lose(w.remote, 9000)
	w.remote.do("write /new three", "write /r newer")
	w.sync()
	w.wantConflicts("/r: " + hash("two") + " / " + hash("newer") + ", kept remote")
	w.local.want("/a/ 755", "/a/f 644 late", "/a/l -> f", "/e/ 755", "/new 644 three", "/r 644 newer")
	w.rest()
}

// A remote that is an older copy of itself gets what it has forgotten, and does not bring
// back what it has not heard the end of.
func TestRemoteOlder(t *testing.T) {
	for _, policy := range []Policy{Theirs, Both} {
		t.Run(policy.String(), func(t *testing.T) { testRemoteOlder(t, policy) })
	}
}

func testRemoteOlder(t *testing.T, policy Policy) {
	w := newWorld(t, Config{OnConflict: policy})
	w.local.do("write /f v1", "write /kept k")
	w.sync()
	w.local.do("write /f v2")
	w.sync()
	// As it was before the last sync.
	now := *w.local.clock
	w.lose(w.remote, 1000)
	*w.remote.clock = w.local.clock.Add(-10 * aWhile)
	w.remote.do("write /f v1", "write /kept k")
	*w.remote.clock = now
	w.sync()
	w.local.want("/f 644 v2", "/kept 644 k")
	w.wantConflicts("/f: " + hash("v2") + " / " + hash("v1") + ", kept local")
	w.rest()
}

// A host that has lost its store gets all there is, and what was removed there goes here.
func TestLocalLost(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /a/f one", "write /a/g two", "write /b three")
	w.sync()
	w.remote.do("rm /a", "write /c four")
	w.lose(w.local, 7000)
	// Its directory is still as it was, apart from one file.
	w.local.do("write /a/f one", "write /a/g two", "write /b three", "write /mine five")
	w.sync()
	w.local.want("/b 644 three", "/c 644 four", "/mine 644 five")
	w.wantConflicts()
	w.rest()

	w.lose(w.local, 9000)
	w.sync()
	w.local.want("/b 644 three", "/c 644 four", "/mine 644 five")
	w.rest()
}

// C-042 (a): what was removed is gone on both sides, whatever the cursor.
func TestC042DeletedStaysDeleted(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost %t", lost), func(t *testing.T) {
			w := newWorld(t, Config{})
			w.local.do("write /f one", "write /d/x two")
			w.sync()
			w.remote.do("rm /f", "rm /d")
			if lost {
				w.lose(w.local, 7000)
				w.local.do("write /f one", "write /d/x two")
			}
			w.sync()
			w.local.want()
			w.wantConflicts()
			w.rest()
		})
	}
}

// C-042 (c): one side changes what the other removes: the remote wins, once.
func TestC042EditAgainstDelete(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /f one", "write /g one")
	w.sync()
	w.local.do("write /f two", "rm /g")
	w.remote.do("rm /f", "write /g two")
	w.sync()
	w.local.want("/g 644 two")
	w.rest()
}

// A remote that loses its store while we are at it is met with a second attempt.
func TestLostMeanwhile(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /f one")
	w.sync()
	w.remote.do("write /g two")
	peer := &swapped{Peer: w.remote.server, at: 1, swap: func() changes.Peer {
		w.remote.open(tree.NewMemory(), 50)
		return w.remote.server
	}}
	w.cfg.Remote = peer
	w.restart()
	w.sync()
	w.local.want("/f 644 one")
	w.same()
}

// swapped is a Peer that another one takes the place of, after some calls of Watermarks.
type swapped struct {
	changes.Peer
	at   int
	swap func() changes.Peer
}

func (s *swapped) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	w, err := s.Peer.Watermarks(ctx, settle)
	if s.at--; s.at == 0 {
		s.Peer = s.swap()
	}
	return w, err
}

// Two hosts and one server: what one does reaches the other, and conflicts are those of
// whoever comes last.
func TestThreeEnds(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Both})
	v := newWorld(t, Config{OnConflict: Both, Remote: w.remote.server})
	v.remote = w.remote
	w.local.do("write /f one", "write /w w")
	v.local.do("write /v v", "mv /v /x")
	w.sync()
	v.sync()
	w.sync()
	v.same()
	w.same()
	w.local.do("write /f W", "rm /x")
	v.local.do("write /f V", "write /y y")
	v.sync()
	w.sync()
	v.sync()
	w.rest()
	v.rest()
	w.wantConflicts("/f: " + hash("W") + " / " + hash("V") + ", kept both copy /f.conflict-" + copyHash("W"))
	v.wantConflicts()
	w.local.want("/f 644 V", "/f.conflict-"+copyHash("W")+" 644 W", "/w 644 w", "/y 644 y")
}

func copyHash(text string) string {
	e := tree.Entry{Kind: tree.KindFile, Mode: 0o644, Parts: []tree.Part{{Hash: tree.Sum([]byte(text)), Size: int64(len(text))}}}
	return printOf(&e)[:8]
}

// C-041: names are left alone on both sides, and come in again when they are not ignored
// any more, without conflicts.
func TestC041Ignored(t *testing.T) {
	w := newWorld(t, Config{Ignore: []string{".cache", "build"}})
	w.local.do("write /.cache/a 1", "write /x/.cache/b 2", "write /.cached/c 3", "write /my.cache 4", "write /build/d 5",
		"write /rebuild/e 6", "write /Build/f 7", "write /y/build 8", "ln build /lnk", "write /x/z z")
	w.sync()
	w.same()
	w.remote.want("/.cached/ 755", "/.cached/c 644 3", "/Build/ 755", "/Build/f 644 7", "/lnk -> build", "/my.cache 644 4",
		"/rebuild/ 755", "/rebuild/e 644 6", "/x/ 755", "/x/z 644 z", "/y/ 755")

	// To begin to ignore something removes nothing.
	w.cfg.Ignore = append(w.cfg.Ignore, "x")
	w.restart()
	w.remote.do("write /x/there 9")
	w.local.do("write /x/here 10", "write /my.cache 11")
	w.sync()
	w.same()
	if got := w.remote.list(); !cmp.Equal(got[len(got)-4:], []string{"/x/ 755", "/x/there 644 9", "/x/z 644 z", "/y/ 755"}) {
		t.Errorf("remote %q", got)
	}

	w.cfg.Ignore = nil
	w.restart()
	w.local.do("write /my.cache 12") // not sent yet
	w.sync()
	w.wantConflicts()
	w.rest()
	if got := len(w.remote.list()); got != 20 {
		t.Errorf("%d paths: %q", got, w.remote.list())
	}
}

// Only what is below the roots takes part, under the other's names.
func TestRoots(t *testing.T) {
	w := newWorld(t, Config{LocalRoot: "/home", RemoteRoot: "/srv/space"})
	w.local.do("write /home/f one", "write /homer no", "write /other no", "chmod /home 700")
	w.remote.do("write /srv/space/g two", "write /srv/h no", "write /top no")
	w.sync()
	w.local.want("/home/ 700", "/home/f 644 one", "/home/g 644 two", "/homer 644 no", "/other 644 no")
	w.remote.want("/srv/ 755", "/srv/h 644 no", "/srv/space/ 755", "/srv/space/f 644 one", "/srv/space/g 644 two", "/top 644 no")
	w.remote.do("rm /srv")
	w.cfg.MayEmpty = true
	w.restart()
	w.sync()
	w.local.want("/home/ 700", "/homer 644 no", "/other 644 no")
	r := w.sync()
	if r.moved() {
		t.Errorf("moved %+v", r)
	}
}

// A remote that is an older copy of itself is found out also by a client whose pull was cut:
// what had changed after the copy was made was not listed where the copy has it.
func TestF4RemoteOlderThanAPullThatWasCut(t *testing.T) {
	w := newWorld(t, Config{})
	w.smallBlocks()
	older := newEnd(t, 1000) // goes along, up to a point
	both := func(line string) {
		w.remote.do(line)
		older.do(line)
	}
	pull := func(ctx context.Context) error {
		t.Helper()
		_, err := w.m.Pull(ctx)
		return err
	}
	both("write /b/a 1")
	both("write /c 1")
	if err := pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	both("rm /b")
	both("write /c 2")
	for i := range smallEntries + 50 {
		both(fmt.Sprintf("write /m/%04d m", i))
	}
	w.remote.do("write /b F", "write /c 3")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.cfg.Progress = func(p Progress) {
		if p.Pulled > 0 {
			cancel()
		}
	}
	w.restart()
	if err := pull(ctx); err == nil {
		t.Fatal("the pull was not cut")
	}
	w.cfg.Progress = nil
	w.remote = older
	w.restart()
	if err := pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(older.list(), w.local.list()); diff != "" {
		t.Errorf("local (-want +got):\n%s", diff)
	}
	w.sync()
	w.rest()
}
