package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/process/eventlog"
)

// A name with what SQL or a pattern would take for a wildcard is a name: what is done to
// a directory is done to that one.
func TestC043WildcardsInNames(t *testing.T) {
	t.Parallel()
	all := []string{"/100%/c", "/100x/d", "/[ab]/e", "/a*/g", "/a.b", "/a/f", "/a0", "/myXdir/b", "/my_dir/a"}
	files := func(tr *tree.Tree) (list []string) {
		t.Helper()
		err := tr.Walk(t.Context(), "/", func(i *tree.FileInfo) error {
			if i.Kind == tree.KindFile {
				list = append(list, i.Path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(list)
		return list
	}
	for _, dir := range []string{"/my_dir", "/100%", "/[ab]", "/a", "/a*"} {
		for _, what := range []string{"remove", "rename"} {
			t.Run(what+strings.ReplaceAll(dir, "/", " "), func(t *testing.T) {
				_, tr := theTree(t, open(t, temporary(t)))
				for _, path := range all {
					write(t, tr, path, path)
				}
				var want []string
				for _, path := range all {
					rest, inside := strings.CutPrefix(path, dir+"/")
					if !inside {
						want = append(want, path)
					} else if what == "rename" {
						want = append(want, "/moved/"+rest)
					}
				}
				slices.Sort(want)
				_, err := tr.Update(t.Context(), func(e *tree.Edit) error {
					if what == "remove" {
						return e.Remove(dir, true)
					}
					return e.Rename(dir, "/moved")
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, files(tr)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
	_, tr := theTree(t, open(t, temporary(t)))
	for _, path := range all {
		write(t, tr, path, path)
	}
	for _, path := range []string{"/my_dir/a", "/100%/c", "/[ab]/e", "/a/f", "/a*/g"} {
		dir := path[:strings.LastIndex(path, "/")]
		list, err := tr.ReadDir(t.Context(), dir, "", 10)
		if err != nil || len(list) != 1 || list[0].Path != path {
			t.Errorf("%s: %v, %v", dir, list, err)
		}
	}
}

// Whoever writes waits for who writes, however often, and whoever reads for nobody.
// That another process holds the file cannot be here: the lock excludes it (TestTwoProcesses).
func TestC044WritersWait(t *testing.T) {
	t.Parallel()
	const writers, rounds, listed = 8, 200, 10_000
	db := open(t, temporary(t))
	_, tr := theTree(t, db)
	log := db.Log()
	_, err := tr.Update(t.Context(), func(e *tree.Edit) error {
		for i := range listed {
			if err := e.PutFile(fmt.Sprintf("/list/%d", i), tree.File{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, tr, "/counter", "0")
	before, err := tr.Lstat(t.Context(), "/counter")
	if err != nil {
		t.Fatal(err)
	}
	var wg, reader sync.WaitGroup
	held, read, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	wg.Go(func() { // it holds the lock until the reader has been through, while all others come
		_, err := tr.Update(t.Context(), func(*tree.Edit) error {
			close(held)
			select {
			case <-read:
				return nil
			case <-t.Context().Done():
				return context.Cause(t.Context())
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	for w := range writers {
		wg.Go(func() {
			id := fmt.Sprintf("run %d", w)
			change := eventlog.Change{Log: int64(w + 1), Info: &eventlog.Info{Origin: eventlog.OriginRun, ID: id}}
			for i := range rounds {
				_, err := tr.Update(t.Context(), func(e *tree.Edit) error {
					// The mode is a number that each reads and raises by one: 0o644 + 1600 is a mode.
					now, err := e.Lstat("/counter")
					if err != nil {
						return err
					}
					if err := e.Chmod("/counter", now.Mode+1); err != nil {
						return err
					}
					name := fmt.Sprintf("/w%d-", w)
					if i > 0 {
						return e.Rename(name+strconv.Itoa(i-1), name+strconv.Itoa(i))
					}
					return e.PutFile(name+"0", tree.File{})
				})
				if err == nil {
					change.Events = []eventlog.Event{{Seq: uint64(i + 1), Kind: eventlog.KindOutput, Data: []byte(id)}}
					err = log.Write(t.Context(), []eventlog.Change{change})
					change.Info = nil
				}
				if err != nil {
					t.Errorf("writer %d, round %d: %v", w, i, err)
					return
				}
			}
			if events, err := log.Read(t.Context(), change.Log, 0, -1, -1); err != nil || len(events) != rounds {
				t.Errorf("writer %d: %d events of %d, %v", w, len(events), rounds, err)
			}
		})
	}
	reader.Go(func() {
		var once sync.Once
		defer once.Do(func() { close(read) })
		for {
			n := 0
			err := tr.Walk(t.Context(), "/list", func(*tree.FileInfo) error { n++; return nil })
			if err != nil || n < listed {
				t.Errorf("%d listed, %v", n, err)
				return
			}
			once.Do(func() { close(read) })
			select {
			case <-ended:
				return
			default:
			}
		}
	})
	wg.Wait()
	close(ended)
	reader.Wait()
	after, err := tr.Lstat(t.Context(), "/counter")
	if err != nil || after.Mode-before.Mode != writers*rounds {
		t.Errorf("%d updates are seen of %d, %v", after.Mode-before.Mode, writers*rounds, err)
	}
}
