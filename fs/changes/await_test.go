package changes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// Await answers at once what is there, otherwise with the next change of anybody's, or after
// a minute without one.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnd(t)
		e.do("write /f a")
		rev := e.marks().CurrentRev
		if got, err := e.Await(t.Context(), rev-1, 0); got != rev || err != nil {
			t.Errorf("%d, %v, want %d", got, err, rev)
		}
		type answer struct {
			rev int64
			err error
		}
		await := func(ctx context.Context) <-chan answer {
			told := make(chan answer, 1)
			go func() {
				rev, err := e.Await(ctx, rev, 0)
				told <- answer{rev, err}
			}()
			synctest.Wait()
			return told
		}
		told := await(t.Context())
		select {
		case a := <-told:
			t.Errorf("answered without a change: %+v", a)
		default:
		}
		e.do("write /f b")
		synctest.Wait()
		if a := <-told; a.rev <= rev || a.err != nil {
			t.Errorf("after a change: %+v", a)
		}
		rev = e.marks().CurrentRev
		begin := time.Now()
		if a := <-await(t.Context()); a.rev != rev || a.err != nil || time.Since(begin) != changes.MaxAwait {
			t.Errorf("without a change: %+v after %v", a, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		told = await(ctx)
		cancel()
		if a := <-told; !errors.Is(a.err, context.Canceled) {
			t.Errorf("of a call that has ended: %+v", a)
		}
	})
}

// openDisk opens a directory as a workspace.
func openDisk(t *testing.T, dir string, watch bool) *disk.Workspace {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	forest := tree.New(db.Tree(), tree.Config{})
	tr, err := forest.Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := disk.Open(t.Context(), disk.Config{Dir: dir, Forest: forest, Tree: tr, Objects: openObjects(t, dir+".objects"), Watch: watch})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return ws
}

// What a command writes is answered, whether the system tells of it or not.
func TestAwaitDisk(t *testing.T) {
	for _, watch := range []bool{true, false} {
		dir := t.TempDir()
		ws := openDisk(t, dir, watch)
		s := changes.New(changes.Config{Workspace: ws})
		w, err := s.Watermarks(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		go func() {
			rev, err := s.Await(t.Context(), w.CurrentRev, 0)
			if err == nil && rev <= w.CurrentRev {
				err = errors.New("it is no greater revision")
			}
			told <- err
		}()
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("by a command"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := <-told; err != nil {
			t.Errorf("watch %t: %v", watch, err)
		}
	}
}

// Paths that come to be left out, and that no longer are, are answered.
func TestAwaitLeftOut(t *testing.T) {
	dir := t.TempDir()
	ws := openDisk(t, dir, true)
	s := changes.New(changes.Config{Workspace: ws})
	w, err := s.Watermarks(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	for _, step := range []struct {
		do   func() error
		left int
	}{
		{func() error { return syscall.Mkfifo(pipe, 0o644) }, 1},
		{func() error { return os.Remove(pipe) }, 0},
	} {
		told := make(chan error, 1)
		go func() {
			_, err := s.Await(t.Context(), w.CurrentRev, 0)
			told <- err
		}()
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if err := <-told; err != nil {
			t.Fatal(err)
		}
		if w, err = s.Watermarks(t.Context(), false); err != nil || len(w.Skipped) != step.left {
			t.Errorf("%+v, %v; want %d", w.Skipped, err, step.left)
		}
	}
}

// A version that is lost is answered, too: at once if it is not known.
func TestAwaitLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnd(t)
		e.do("write /f a")
		rev := e.marks().CurrentRev
		lose := func() {
			v := lost.Version{Path: "/f", At: e.now, Why: lost.Overtaken, Entry: linkEntry(1, "/f", "to")}
			if _, err := e.tree.Update(t.Context(), func(ed *tree.Edit) error { return lost.Keep(ed, &v) }); err != nil {
				t.Fatal(err)
			}
		}
		lose()
		begin := time.Now()
		told := make(chan error, 1)
		go func() {
			got, err := e.Await(t.Context(), rev, 0)
			if err == nil && got != rev {
				err = fmt.Errorf("revision %d, want %d", got, rev)
			}
			told <- err
		}()
		synctest.Wait()
		lose()
		if err := <-told; err != nil || time.Since(begin) != 0 {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		begin = time.Now()
		if got, err := e.Await(t.Context(), rev, 1); got != rev || err != nil || time.Since(begin) != 0 {
			t.Errorf("one that is not known: %d, %v after %v", got, err, time.Since(begin))
		}
		if got, err := e.Await(t.Context(), rev, 2); got != rev || err != nil || time.Since(begin) != changes.MaxAwait {
			t.Errorf("none that is not known: %d, %v after %v", got, err, time.Since(begin))
		}
	})
}

// A signalPeer says when it is asked to wait.
type signalPeer struct {
	changes.Peer
	asked chan struct{}
}

func (p signalPeer) Await(ctx context.Context, after, known int64) (int64, error) {
	p.asked <- struct{}{}
	return p.Peer.Await(ctx, after, known)
}

// A connection has one sync/await: the next one answers the one before.
func TestAwaitIsOne(t *testing.T) {
	e := newEnd(t)
	asked := make(chan struct{})
	c := talk(t, signalPeer{e.Server, asked})
	for id := 1; id <= 3; id++ {
		c.Say(fmt.Sprintf(`{"id":%d,"method":"sync/await","params":{"after":4000000000000000}}`, id))
		<-asked
		if id > 1 {
			c.Want(fmt.Sprintf(`{"id":%d,"result":{"currentRev":4000000000000000}}`, id-1))
		}
	}
}
