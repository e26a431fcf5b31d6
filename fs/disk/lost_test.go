package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lost"
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
						if at := b.copies(text); path == "p" && !slices.Equal(at, []string{path}) && !slices.Equal(at, []string{"the store"}) {
							t.Fatalf("what the command wrote is at %q", at)
						}
						b.settle()
						if path == "p/f" {
							b.wantAside(map[string]string{"p": want, "p.conflict-": "dir 0755", "p.conflict-/f": "file 0644 " + text})
							return
						}
						b.want(map[string]string{"p": want})
						if got := b.lost(); len(got) != 1 || got[0] != "p file 0644 "+text {
							t.Errorf("in the end, what is kept is %q", got)
						}
					})
				}
			}
		}
	}
}

// lost lists the versions that are kept: what paths they had, and what they are.
func (b *bench) lost() []string {
	b.t.Helper()
	var list []string
	b.must(lost.List(context.Background(), b.forest, 0, func(v *lost.Version) error {
		path := strings.TrimPrefix(v.Path, "/workspace/")
		if v.Entry.Kind == tree.KindSymlink {
			list = append(list, path+" link "+v.Entry.Target)
			return nil
		}
		var text []byte
		for _, p := range v.Entry.Parts {
			var err error
			if text, err = b.forest.Chunk(context.Background(), p.Hash, text); err != nil {
				return err
			}
		}
		list = append(list, fmt.Sprintf("%s %v %04o %s", path, v.Entry.Kind, v.Entry.Mode, text))
		return nil
	}))
	return list
}

// wantAside is want where what a name has behind ".conflict-" is left out.
func (b *bench) wantAside(want map[string]string) {
	b.t.Helper()
	mark := regexp.MustCompile(`\.conflict-[0-9a-f]{8}`)
	for where, list := range map[string]map[string]string{"directory": onDisk(b.t, b.dir), "tree": b.inTree()} {
		got := map[string]string{}
		for path, what := range list {
			got[mark.ReplaceAllString(path, ".conflict-")] = what
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b.t.Errorf("%s (-want +got):\n%s", where, diff)
		}
	}
}

// F1: what a command writes while an entry is on its way is kept, whatever it is, and told.
func TestF1OvertakenIsKept(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  func(b *bench)
		command func(b *bench)
		lost    []string
	}{
		{"file", func(b *bench) { b.write("p", "old") }, func(b *bench) { b.write("p", "by a command") }, []string{"p file 0644 by a command"}},
		{"new", func(*bench) {}, func(b *bench) { b.write("p", "by a command") }, []string{"p file 0644 by a command"}},
		{"link", func(b *bench) { b.write("p", "old") }, func(b *bench) { b.must(errors.Join(os.RemoveAll(b.path("p")), os.Symlink("nowhere", b.path("p")))) }, []string{"p link nowhere"}},
		{"mode", func(b *bench) { b.write("p", "old") }, func(b *bench) { b.must(os.Chmod(b.path("p"), 0o755)) }, []string{"p file 0755 old"}},
		{"same", func(b *bench) { b.write("p", "old") }, func(b *bench) { b.write("p", "by a peer") }, nil},
		{"known", func(b *bench) { b.write("p", "old") }, func(*bench) {}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				tt.before(b)
				b.settle() // and the content may have changed without a trace since
				b.ws.Hook(func(op, path string) error {
					if op == "place" && path == "p" {
						tt.command(b)
					}
					return nil
				})
				done, err := b.ws.Apply(t.Context(), seq([]tree.Entry{b.file("/workspace/p", "by a peer", 0o644)}), tree.SkipSame, nil)
				b.must(err)
				b.ws.Hook(nil)
				b.settle()
				b.want(map[string]string{"p": "file 0644 by a peer"})
				if got := b.lost(); !slices.Equal(got, tt.lost) {
					t.Errorf("kept: %q, want %q", got, tt.lost)
				}
				if len(done.Overtaken) != len(tt.lost) {
					t.Errorf("told of %+v", done.Overtaken)
				}
			})
		})
	}
}

// F1(a): what is written to a path that a journal lists, while nobody looks, is kept.
func TestF1WrittenAfterACrash(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("p", "old")
		b.write("q", "old")
		b.write("r", "old")
		quiet(b)
		b.pend(b.file("/workspace/p", "by a peer", 0o644), b.file("/workspace/q", "by a peer", 0o644), remove("/workspace/r"))
		b.close()
		b.write("p", "my evening work")
		b.write("r", "my evening work")
		b.open()
		b.settle()
		b.want(map[string]string{"p": "file 0644 by a peer", "q": "file 0644 by a peer", "r": "file 0644 my evening work"})
		if got := b.lost(); !slices.Equal(got, []string{"p file 0644 my evening work"}) {
			t.Errorf("kept: %q", got)
		}
	})
}

// A version that was on its way out when wsd died is kept, unless the store has it.
func TestF1DiedOnTheWayOut(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/p", "settled")
		b.settle()
		// The store may have the content without a file that has it: it was on its way.
		_, err := b.forest.Stage(t.Context(), strings.NewReader("by a command"))
		b.must(err)
		b.close()
		b.write("d/.wsd-out-0123456789abcdef-p", "by a command")
		b.write("d/.wsd-out-0123456789abcdee-p", "settled")
		b.write("d/.wsd-tmp-0123456789abcdef", "an entry that was being wri")
		b.must(os.Symlink("nowhere", b.path("d/.wsd-out-0123456789abcded-l")))
		b.open()
		b.settle()
		b.want(map[string]string{"d": "dir 0755", "d/p": "file 0644 settled"})
		got := b.lost()
		slices.Sort(got)
		if !slices.Equal(got, []string{"d/l link nowhere", "d/p file 0644 by a command"}) {
			t.Errorf("kept: %q", got)
		}
	})
}

// A pipe that came just before a removal during which wsd died goes back, unless there is something newer.
func TestDiedWithAPipeOnTheWayOut(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("q", "newer")
		b.settle()
		b.close()
		b.must(unix.Mkfifo(b.path(".wsd-out-0123456789abcdef-p"), 0o600))
		b.must(unix.Mkfifo(b.path(".wsd-out-0123456789abcdee-q"), 0o600))
		b.open()
		b.settle()
		names, err := os.ReadDir(b.path(""))
		b.must(err)
		pipes := ""
		for _, e := range names {
			if e.Type() == os.ModeNamedPipe {
				name, _, _ := strings.Cut(e.Name(), "-")
				pipes += name + " "
			}
		}
		if pipes != "p q.conflict " {
			t.Errorf("pipes: %q", pipes)
		}
		if text, err := os.ReadFile(b.path("q")); string(text) != "newer" {
			t.Errorf("q is %q, %v", text, err)
		}
	})
}

// A file that somebody has open for writing when it is replaced or removed is waited for:
// what is written to it is kept.
func TestF1OpenForWriting(t *testing.T) {
	for _, how := range []string{"replaced", "removed", "with its directory"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t, disk.Config{Watch: true})
			b.write("d/p", "old")
			quiet(b)
			f, err := os.OpenFile(b.path("d/p"), os.O_WRONLY, 0)
			b.must(err)
			defer f.Close()
			want := map[string]string{"d": "dir 0755"}
			switch how {
			case "replaced":
				b.pend(b.file("/workspace/d/p", "by a peer", 0o644))
				want["d/p"] = "file 0644 by a peer"
			case "removed":
				b.apply(remove("/workspace/d/p"))
			default:
				b.apply(remove("/workspace/d"))
				want = map[string]string{}
			}
			b.settle()
			_, err = f.WriteString("by a command")
			b.must(err)
			b.settle()
			if got := b.lost(); len(got) > 0 {
				t.Errorf("kept before it was whole: %q", got)
			}
			b.must(f.Close())
			b.settle()
			b.want(want)
			if got := b.lost(); !slices.Equal(got, []string{"d/p file 0644 by a command"}) {
				t.Errorf("kept: %q", got)
			}
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
				want, end := map[string]string{"p": pushed}, "the store"
				if entry == tree.KindFile {
					// What was pushed was there, and the second command has overwritten that.
					want["p"], end = "file 0644 "+first, "p"
				}
				at := b.copies(second)
				if how != "removed" {
					if len(at) != 1 || !strings.HasPrefix(at[0], "wsd-kept-") || !strings.Contains(log.String(), at[0]) {
						t.Fatalf("what was written next is at %q; log:\n%s", at, log.String())
					}
					want[at[0]] = "file 0644 " + second
				}
				b.settle()
				b.want(want)
				if at := b.copies(first); !slices.Contains(at, end) {
					t.Errorf("in the end, what was written first is at %q", at)
				}
			})
		}
	}
}

// What an entry replaces or removes can be kept in the same update, after the entry: nothing else
// has the content by then.
func TestF1KeptAfterTheEntry(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("p", "replaced")
		b.write("d/q", "removed")
		quiet(b)
		entries := map[string]tree.Entry{}
		for _, path := range []string{"/workspace/p", "/workspace/d/q"} {
			e, err := b.tree.Entry(t.Context(), path)
			b.must(err)
			entries[path] = e
		}
		_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{b.file("/workspace/p", "entry", 0o644), remove("/workspace/d")}), tree.SkipSame, func(e *tree.Edit) error {
			for path, entry := range entries {
				if err := lost.Keep(e, &lost.Version{Path: path, At: time.Now(), Why: lost.Conflict, Entry: entry}); err != nil {
					return err
				}
			}
			return nil
		})
		b.must(err)
		b.want(map[string]string{"p": "file 0644 entry"})
		if got := b.lost(); len(got) != 2 {
			t.Errorf("kept: %q", got)
		}
	})
}
