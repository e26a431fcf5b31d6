package mirror

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// oldPeer does not know names that are not UTF-8, until it does. Its tree has what it is sent, as it
// is.
type oldPeer struct {
	*changes.Server
	knows bool
}

func (p *oldPeer) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	w, err := p.Server.Watermarks(ctx, settle)
	w.AnyNames = p.knows
	return w, err
}

// upgraded is a server that this side knows at first as one of PlainNames.
type upgraded struct {
	changes.Peer
	server *changes.Server
}

func (p *upgraded) upgrade() { p.Peer = p.server }

var (
	rawName = rawname.Encode("caf\xe9")
	rawDir  = rawname.Encode("d\xff")
	private = rawname.Encode("p\U0010FEE9")
)

var copyMark = regexp.MustCompile(`\.conflict-[0-9a-f]{8}`)

// wantMasked is want, without the hashes in the names of copies.
func (e *end) wantMasked(lines ...string) {
	e.t.Helper()
	var got []string
	for _, line := range e.list() {
		got = append(got, copyMark.ReplaceAllString(line, ".conflict-#"))
	}
	if diff := cmp.Diff(lines, got); diff != "" {
		e.t.Errorf("tree (-want +got):\n%s", diff)
	}
}

// F3: names and targets that are not UTF-8 travel between two ends that know them.
func TestF3NamesOfAnyBytesTravel(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Both})
	w.local.do("write /"+rawName+" a", "write /"+rawDir+"/"+rawName+" b", "ln "+rawName+" /l", "write /"+private+" c")
	w.remote.do("write /there" + rawName + " d")
	w.sync()
	w.rest()
	w.local.do("write /"+rawName+" mine", "mv /"+rawDir+" /e")
	w.remote.do("write /" + rawName + " theirs")
	w.sync()
	w.rest()
	if len(w.conflicts) != 1 || !strings.HasPrefix(w.conflicts[0], "/"+rawName+": "+hash("mine")+" / "+hash("theirs")+", kept both copy /"+rawName+".conflict-") {
		t.Errorf("conflicts: %q", w.conflicts)
	}
	w.remote.do("rm /"+rawName, "rm /e")
	w.sync()
	w.rest()
	w.local.wantMasked("/"+rawName+".conflict-# 644 mine", "/l -> "+rawName, "/"+private+" 644 c", "/there"+rawName+" 644 d")
}

// F3: a remote that does not know such names gets none; they are named, and stay in what it removes.
func TestF3OldRemote(t *testing.T) {
	for name, remote := range map[string]func(w *world) changes.Peer{
		"of PlainNames": func(w *world) changes.Peer { return w.remote.server.PlainNames() },
		"of before":     func(w *world) changes.Peer { return &oldPeer{Server: w.remote.server} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: Both})
			w.cfg.Remote = remote(w)
			w.restart()
			w.local.do("write /d/"+rawName+" a", "write /d/f b", "ln "+rawName+" /l", "write /f c")
			r := w.sync()
			w.remote.want("/d/ 755", "/d/f 644 b", "/f 644 c")
			if r.Pushed != 3 {
				t.Errorf("%+v", r)
			}
			w.sync()
			w.remote.do("rm /d", "write /l theirs")
			w.sync()
			w.local.wantMasked("/d/ 755", "/d/"+rawName+" 644 a", "/f 644 c", "/l 644 theirs", "/l.conflict-# -> "+rawName)
			w.sync()
			w.remote.want("/f 644 c", "/l 644 theirs")
			// A rename there takes it along.
			w.remote.do("mkdir /x", "write /x/f x")
			w.sync()
			w.local.do("write /x/" + rawName + " y")
			w.sync()
			w.remote.do("mv /x /y")
			w.sync()
			if w.local.line("/y/"+rawName) == "" || w.local.line("/x") != "" {
				t.Errorf("here: %q", w.local.list())
			}
		})
	}
}

// F3: once both ends know such names, those of before come over.
func TestF3Upgrade(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Both})
	peer := &upgraded{w.remote.server.PlainNames(), w.remote.server}
	w.cfg.Remote = peer
	w.restart()
	w.local.do("write /d/"+rawName+" a", "write /d/f b", "ln "+rawName+" /l")
	w.remote.do("write /"+rawDir+"/x c", "ln "+rawName+" /m", "write /"+private+" p")
	w.sync()
	w.local.want("/d/ 755", "/d/"+rawName+" 644 a", "/d/f 644 b", "/l -> "+rawName, "/"+private+" 644 p")
	peer.upgrade()
	w.restart()
	w.sync()
	w.rest()
	w.wantConflicts()
	for _, path := range []string{"/d/" + rawName, "/l", "/m", "/" + rawDir + "/x", "/" + private} {
		if w.local.line(path) == "" || w.remote.line(path) != w.local.line(path) {
			t.Errorf("%q is %q here, %q there", path, w.local.line(path), w.remote.line(path))
		}
	}
}

// F3: rules are about the bytes of names, as git's are.
func TestF3RulesMatchBytes(t *testing.T) {
	for _, rule := range []string{"caf\xe9", "caf?", "caf[\xe0-\xef]", "/caf\xe9", "!x\ncaf\xe9"} {
		w := newWorld(t, Config{Rules: []string{rule}})
		w.local.do("write /"+rawName+" a", "write /keep b")
		w.sync()
		w.remote.want("/keep 644 b")
		w.restart()
		if r := w.sync(); r.moved() {
			t.Errorf("%q: %+v", rule, r)
		}
		w.cfg.Rules = nil
		w.restart()
		w.sync()
		w.same()
	}
	w := newWorld(t, Config{Ignore: []string{"caf\xe9"}})
	w.local.do("write /"+rawName+" a", "write /keep b")
	w.remote.do("write /" + rawName + " c")
	w.sync()
	w.remote.want("/"+rawName+" 644 c", "/keep 644 b")
}

// forger sends entries of its own.
type forger struct {
	*changes.Server
	entries []tree.Entry
}

func (p *forger) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	f, err := p.Server.FetchChanges(ctx, q)
	if err == nil {
		f.Entries.Close(nil)
		f.Entries = changes.FromSlice(p.entries)
	}
	return f, err
}

// F3: a path from a remote that is the form of no name is refused, and is not taken for another
// name.
func TestF3RemotePathsHaveOneForm(t *testing.T) {
	const noForm = "\U0010FEC3\U0010FEA9" // é
	for name, entry := range map[string]tree.Entry{
		"a removal":   {Kind: tree.KindDelete, Path: "/" + noForm},
		"a directory": {Kind: tree.KindDir, Path: "/" + noForm, Mode: 0o755},
		"below it":    {Kind: tree.KindDir, Path: "/" + noForm + "/d", Mode: 0o755},
		"a link":      {Kind: tree.KindSymlink, Path: "/l", Target: noForm},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: Theirs})
			w.local.do("write /é mine", "write /f x")
			w.remote.do("write /é mine", "write /f x", "write /g y")
			entry.Rev = 1002
			w.cfg.Remote = &forger{w.remote.server, []tree.Entry{entry}}
			w.restart()
			if r, err := w.m.Pull(t.Context()); tree.Code(err) != "EINVAL" || !errors.Is(err, rawname.ErrForm) {
				t.Errorf("%+v, %v", r, err)
			}
			w.local.want("/f 644 x", "/é 644 mine")
		})
	}
}

// A remote that does not know names of any bytes keeps what it has where a link here leads to such a name. A change
// of the remote's there is a conflict.
func TestRawLinkLeavesWhatIsThere(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Both})
	w.cfg.Remote = w.remote.server.PlainNames()
	w.restart()
	w.local.do("ln to /l", "write /f 1", "write /g 1", "write /gone 1", "write /was 1")
	w.sync()
	w.local.do("rm /l", "ln "+rawName+" /l", "rm /f", "ln "+rawName+" /f", "rm /g", "ln "+rawName+" /g", "ln "+rawName+" /new", "rm /gone", "rm /was", "ln "+rawName+" /was")
	here := w.local.list()
	for range 2 {
		w.sync()
		w.remote.want("/f 644 1", "/g 644 1", "/l -> to", "/was 644 1")
		w.local.want(here...)
		w.restart()
	}
	w.wantConflicts()
	w.remote.do("write /g 2")
	w.sync()
	w.remote.want("/f 644 1", "/g 644 2", "/l -> to", "/was 644 1")
	w.local.wantMasked("/f -> "+rawName, "/g 644 2", "/g.conflict-# -> "+rawName, "/l -> "+rawName, "/new -> "+rawName, "/was -> "+rawName)
	w.local.do("rm /l", "ln other /l", "rm /f", "rm /was", "write /was 3")
	w.sync()
	w.remote.want("/g 644 2", "/l -> other", "/was 644 3")
}
