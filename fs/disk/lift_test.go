package disk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// applyPartly applies entries some of which cannot be brought to the directory.
func (b *bench) applyPartly(entries ...tree.Entry) {
	b.t.Helper()
	_, err := b.ws.Apply(context.Background(), seq(entries), tree.SkipSame, nil)
	if _, is := errors.AsType[*changes.PendingError](err); !is {
		b.t.Fatalf("got %v", err)
	}
}

// A file that an entry renames, and that cannot be renamed here, is copied; its old name goes once it can.
func TestRenamedWhereTheOldNameStays(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.apply(b.file("/workspace/q/f1", "one", 0o644), b.file("/workspace/q/e/f4", "four", 0o644))
		stays := true
		b.ws.Hook(func(op, path string) error {
			if stays && (op == "lift" || op == "clear") {
				return unix.EACCES
			}
			return nil
		})
		b.applyPartly(remove("/workspace/q"), known("/workspace/g1", "one"), known("/workspace/z/f4", "four"))
		want := map[string]string{
			"g1": "file 0644 one", "z": "dir 0755", "z/f4": "file 0644 four",
			"q": "dir 0755", "q/f1": "file 0644 one", "q/e": "dir 0755", "q/e/f4": "file 0644 four",
		}
		if diff := cmp.Diff(want, onDisk(t, b.dir)); diff != "" {
			t.Errorf("directory (-want +got):\n%s", diff)
		}
		stays = false
		b.settle()
		b.want(map[string]string{"g1": "file 0644 one", "z": "dir 0755", "z/f4": "file 0644 four"})
		b.wantLost()
	})
}

// Where it cannot be copied either, its old name counts as news: it is the last that has the content.
func TestRenamedWhereTheOldNameCannotBeCopied(t *testing.T) {
	cannotBeCopied(t, func(b *bench) { b.apply(b.file("/workspace/q/f1", "one", 0o644)) })
}

// The same of a file that was written just now, so that its times do not tell whether it changes.
func TestRenamedAtOnceWhereTheOldNameCannotBeCopied(t *testing.T) {
	cannotBeCopied(t, func(b *bench) {
		b.write("q/f1", "one")
		b.settle()
	})
}

func cannotBeCopied(t *testing.T, write func(*bench)) {
	both(t, func(t *testing.T, b *bench) {
		write(b)
		stays := true
		b.ws.Hook(func(op, path string) error {
			if stays && (op == "lift" || op == "clear" || op == "read") {
				return unix.EACCES
			}
			return nil
		})
		b.applyPartly(remove("/workspace/q/f1"), known("/workspace/g1", "one"))
		stays = false
		b.settle()
		b.settle()
		b.want(map[string]string{"q": "dir 0755", "q/f1": "file 0644 one"})
		b.check()
	})
}

// A renamed file becomes an object while the store is full: it is not noted there. Once there is room it is,
// and the file has its new name. Meanwhile nothing is lost, also if the process ends.
func TestRenamedWhileTheStoreIsFull(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(map[bool]string{false: "goes on", true: "restarted"}[restarted], func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				b.write("q/f1", "one")
				b.settle()
				b.ws.Hook(func(op, _ string) error {
					b.gate.full.Store(b.gate.full.Load() || op == "lift")
					return nil
				})
				b.applyPartly(remove("/workspace/q/f1"), known("/workspace/g1", "one"))
				if err := b.ws.Settle(t.Context()); !errors.Is(err, errFull) {
					t.Errorf("settled while the store is full: %v", err)
				}
				b.ws.Hook(nil)
				b.gate.full.Store(false)
				if restarted {
					b.reopen()
				}
				b.settle()
				b.want(map[string]string{"q": "dir 0755", "g1": "file 0644 one"})
				b.wantLost()
				b.noObjects()
			})
		})
	}
}
