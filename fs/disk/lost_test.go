package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// copies lists the files that have a text, and "the store" if the store has it.
func (b *bench) copies(text string) []string {
	b.t.Helper()
	var list []string
	for path, what := range onDisk(b.t, b.dir) {
		if strings.HasPrefix(what, "file ") && strings.HasSuffix(what, " "+text) {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	held, err := b.forest.Held(context.Background(), []tree.Hash{tree.Sum([]byte(text))})
	b.must(err)
	if held[0] {
		list = append(list, "the store")
	}
	return list
}

// pendAt applies an entry for the path p that stays in the journal. With known, a file is at
// p before.
func (b *bench) pendAt(kind tree.Kind, known bool) (want string) {
	b.t.Helper()
	if known {
		b.write("p", "old")
	}
	if kind == tree.KindSymlink {
		b.pend(link("/workspace/p", "nowhere"))
		return "link nowhere"
	}
	b.pend(b.file("/workspace/p", "by a peer", 0o644))
	return "file 0644 by a peer"
}

// A command writes a version just before an entry takes its place. The version is not lost
// when the call ends before the store has it, or when the store is full.
func TestOvertakenIsNotLost(t *testing.T) {
	const text = "by a command"
	for _, how := range []string{"canceled", "full"} {
		for _, entry := range []tree.Kind{tree.KindFile, tree.KindSymlink} {
			for _, path := range []string{"p", "p/f"} {
				for _, known := range []bool{false, true} {
					t.Run(fmt.Sprint(how, entry, path, known), func(t *testing.T) {
						b := newBench(t, disk.Config{Watch: true})
						want := b.pendAt(entry, known)
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						b.ws.Hook(func(op, p string) error {
							if op == "place" && p == "p" {
								if known && path != "p" {
									b.must(os.Remove(b.path("p")))
								}
								b.write(path, text)
								b.gate.full.Store(how == "full")
								cancel()
							}
							return nil
						})
						if err := b.ws.Settle(ctx); err == nil {
							t.Error("settled")
						}
						b.ws.Hook(nil)
						b.gate.full.Store(false)
						if at := b.copies(text); !slices.Equal(at, []string{path}) && !slices.Equal(at, []string{"the store"}) {
							t.Fatalf("what the command wrote is at %q", at)
						}
						b.settle()
						b.want(map[string]string{"p": want})
						if at := b.copies(text); !slices.Equal(at, []string{"the store"}) {
							t.Errorf("in the end, what the command wrote is at %q", at)
						}
					})
				}
			}
		}
	}
}

// A file that nobody has settled is stored before it gets a temporary name: the next start
// removes what has one.
func TestOvertakenIsStoredFirst(t *testing.T) {
	const text = "by a command"
	for _, entry := range []tree.Kind{tree.KindFile, tree.KindSymlink} {
		t.Run(entry.String(), func(t *testing.T) {
			b := newBench(t, disk.Config{Watch: true})
			want := b.pendAt(entry, false)
			var at []string
			b.ws.Hook(func(op, path string) error {
				switch {
				case op == "place" && path == "p":
					b.write("p", text)
				case op == "read" && at == nil:
					at = b.copies(text)
				}
				return nil
			})
			b.settle()
			b.ws.Hook(nil)
			if !slices.Equal(at, []string{"p"}) {
				t.Errorf("when it was stored, what the command wrote was at %q", at)
			}
			b.want(map[string]string{"p": want})
		})
	}
}

// What was written through a mapping is stored before an entry that was pending replaces it.
func TestOvertakenMapping(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	b.write("p", strings.Repeat("a", 8192))
	var text []byte
	b.mapped("p", func() {
		b.pend(b.file("/workspace/p", "by a peer", 0o644))
		var err error
		text, err = os.ReadFile(b.path("p"))
		b.must(err)
	})
	b.settle()
	b.want(map[string]string{"p": "file 0644 by a peer"})
	if at := b.copies(string(text)); !slices.Equal(at, []string{"the store"}) {
		t.Errorf("what the command wrote is at %q", at)
	}
}

// A version that cannot be stored is put back, whatever has come to its path meanwhile, and
// that is kept as well.
func TestOvertakenMeetsAnother(t *testing.T) {
	const first, second = "by a command", "by a second command"
	for _, entry := range []tree.Kind{tree.KindFile, tree.KindSymlink} {
		for how, again := range map[string]func(path string) error{
			"removed": os.Remove,
			"replaced": func(path string) error {
				return errors.Join(os.WriteFile(path+"2", []byte(second), 0o644), os.Rename(path+"2", path))
			},
			"written": func(path string) error {
				if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
					return errors.Join(err, os.Remove(path), os.WriteFile(path, []byte(second), 0o644))
				}
				return os.WriteFile(path, []byte(second), 0o644)
			},
		} {
			t.Run(entry.String()+" "+how, func(t *testing.T) {
				var log bytes.Buffer
				b := newBench(t, disk.Config{Watch: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				pushed := b.pendAt(entry, true)
				placed := false
				b.ws.Hook(func(op, path string) error {
					switch {
					case op == "place" && path == "p":
						placed = true
						b.gate.full.Store(true)
						b.write("p", first)
					case op == "read" && placed: // it has the temporary name now
						return again(b.path("p"))
					}
					return nil
				})
				if err := b.ws.Settle(t.Context()); !errors.Is(err, errFull) {
					t.Errorf("settled with a full store: %v", err)
				}
				b.ws.Hook(nil)
				b.gate.full.Store(false)
				if at := b.copies(first); !slices.Equal(at, []string{"p"}) {
					t.Errorf("what was written first is at %q", at)
				}
				want := map[string]string{"p": pushed}
				at := b.copies(second)
				if how != "removed" {
					if len(at) != 1 || !strings.HasPrefix(at[0], "wsd-kept-") || !strings.Contains(log.String(), at[0]) {
						t.Fatalf("what was written next is at %q; log:\n%s", at, log.String())
					}
					want[at[0]] = "file 0644 " + second
				}
				b.settle()
				b.want(want)
				if at := b.copies(first); !slices.Equal(at, []string{"the store"}) {
					t.Errorf("in the end, what was written first is at %q", at)
				}
			})
		}
	}
}
