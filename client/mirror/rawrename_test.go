package mirror

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// F3: what is ignored in a directory goes along when the other side renames the directory, whatever
// bytes both names have. A remote that knows UTF-8 alone hears of no name of others: to it, and from
// it, such a rename is a removal or something new, and what is ignored stays where it is.
func TestF3RenameTakesWhatIsIgnoredAlong(t *testing.T) {
	var (
		rawOne, rawTwo         = rawname.Encode("d\xff"), rawname.Encode("e\xfe\xe9")
		privateOne, privateTwo = rawname.Encode("p\U0010FEE9"), rawname.Encode("\U0010FEC3\U0010FEA9")
	)
	for name, tt := range map[string]struct {
		from, to string
		plain    bool // to a remote that knows UTF-8 alone
	}{
		"to bytes":             {"d", rawOne, true},
		"from bytes":           {rawOne, "d", true},
		"bytes to bytes":       {rawOne, rawTwo, true},
		"to private":           {"d", privateOne, false},
		"from private":         {privateOne, "d", false},
		"private to private":   {privateOne, privateTwo, false},
		"of several":           {privateTwo, "d", false},
		"bytes to private":     {rawOne, privateOne, true},
		"private to bytes":     {privateTwo, rawTwo, true},
		"below what has bytes": {rawOne + "/x", rawOne + "/" + rawTwo, true},
	} {
		for remote, peer := range map[string]func(s *changes.Server) changes.Peer{
			"wsd":   func(s *changes.Server) changes.Peer { return s },
			"plain": func(s *changes.Server) changes.Peer { return s.PlainNames() },
		} {
			for _, side := range []string{"here", "there"} {
				t.Run(name+" "+remote+" renamed "+side, func(t *testing.T) {
					w := newWorld(t, Config{OnConflict: Both, Ignore: []string{".env"}})
					w.cfg.Remote = peer(w.remote.server)
					w.restart()
					actor, keeper := w.local, w.remote
					if side == "there" {
						actor, keeper = w.remote, w.local
					}
					w.local.do("write /keep k", "write /"+tt.from+"/code c")
					w.sync()
					known := keeper.line("/"+tt.from+"/code") != ""
					if want := remote == "wsd" || isPlain(tt.from); known != want && side == "here" {
						t.Fatalf("%q is there: %v, want %v", tt.from, known, want)
					}
					if side == "there" && remote == "plain" && !isPlain(tt.from) {
						w.remote.do("write /" + tt.from + "/code c")
					}
					keeper.do("write /" + tt.from + "/.env secret")
					actor.do("mv /" + tt.from + " /" + tt.to)
					for range 2 {
						w.sync()
						w.restart()
					}
					// The secret is at one of the two paths, at the new one if both sides know both.
					at := tt.to
					if remote == "plain" && tt.plain {
						at = tt.from
					}
					if got := keeper.line("/" + at + "/.env"); !strings.HasSuffix(got, " secret") {
						t.Errorf("nothing is at %q: %q", at, keeper.list())
					}
					if actor.line("/"+tt.to+"/code") == "" {
						t.Errorf("the file is gone: %q", actor.list())
					}
					if r, err := w.m.Sync(t.Context()); err != nil || r.moved() || !r.InStep {
						t.Errorf("at rest: %+v, %v", r, err)
					}
					w.local.check()
					w.remote.check()
				})
			}
		}
	}
}

// An oldCursors Peer is an older wsd: it refuses a cursor with a path of more bytes than paths have,
// as it counts them.
type oldCursors struct {
	*oldPeer
	longest int
}

func (p *oldCursors) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	if in.Cursor != nil && len(in.Cursor.Path) > tree.MaxPath {
		return changes.PushResult{}, &changes.Error{Code: "EINVAL", Err: fmt.Errorf("%w: a cursor of %d bytes", tree.ErrInvalid, len(in.Cursor.Path))}
	}
	if in.Cursor != nil {
		p.longest = max(p.longest, len(in.Cursor.Path))
	}
	return p.oldPeer.Push(ctx, in, entries)
}

// F3: a path of more than 1,024 bytes that an older wsd cannot have, or has in other words, stops
// no push of what is beside it.
func TestF3LongPathsToAnOldRemote(t *testing.T) {
	deep := func(name string) string { return strings.TrimSuffix(strings.Repeat(rawname.Encode(name)+"/", 8), "/") }
	for name, long := range map[string]string{
		"bytes":   deep(strings.Repeat("\xff", 200)),
		"private": deep(strings.Repeat("\U0010FEE9", 50)),
	} {
		for _, size := range []int{1, 2, 3, 5, 1000} {
			t.Run(fmt.Sprintf("%s in blocks of %d", name, size), func(t *testing.T) {
				w := newWorld(t, Config{OnConflict: Both})
				peer := &oldCursors{oldPeer: &oldPeer{Server: w.remote.server}}
				w.cfg.Remote = peer
				l := standard
				l.plain, l.entries = size, size
				w.limits = &l
				w.restart()
				w.local.do("write /d/a a", "write /d/"+long+" long", "write /d/z z")
				w.sync()
				w.local.do("mv /d /e") // all of it has one revision
				w.sync()
				w.local.do("write /e/" + long + " longer")
				w.sync()
				for path, text := range map[string]string{"/e/a": "a", "/e/z": "z", "/e/" + rawname.Raw(long): "longer"} {
					if !utf8.ValidString(path) {
						continue
					}
					got, err := w.remote.tree.ReadFile(t.Context(), path, 100) // it has what it is sent
					if err != nil || string(got) != text {
						t.Errorf("%.20q is %q there, want %q, %v", path, got, text, err)
					}
				}
				if peer.longest > tree.MaxPath {
					t.Errorf("a cursor of %d bytes", peer.longest)
				}
				if r, err := w.m.Sync(t.Context()); err != nil || r.moved() || !r.InStep {
					t.Errorf("at rest: %+v, %v", r, err)
				}
			})
		}
	}
}
