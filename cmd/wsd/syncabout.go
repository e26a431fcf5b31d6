package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lineage"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// syncAbout is which two sides a state is about, as it is stored there.
type syncAbout struct {
	Dir string `json:"dir"`
	// DirID is the identity of Dir (package lineage), "" if it has none. It stays when Dir is renamed, until
	// the machine is started anew.
	DirID string `json:"dirId,omitempty"`
	// Server is syncTarget.server.
	Server string `json:"server"`
	// URL is where the server was last.
	URL string `json:"url,omitempty"`
	// Store is the identity of the server's store, "" if the server does not say.
	Store string `json:"store,omitempty"`
	// ServerDir is the directory that the server serves, "" if it does not say.
	ServerDir string `json:"serverDir,omitempty"`
	// Part is a directory in the server's workspace, "" for all of it, and Mount its path in the server's tree.
	Part  string `json:"part,omitempty"`
	Mount string `json:"mount,omitempty"`
}

// about is what a state of a directory with the server would be about.
func (r *syncRemote) about(dir string, target *syncTarget) (syncAbout, error) {
	a := syncAbout{Dir: dir, Server: target.server(), URL: target.typed(), Part: r.part, Mount: r.mount}
	if r.place != nil {
		a.Store, a.ServerDir = r.place.Store, r.place.Dir
	}
	ids, err := lineage.Of(dir)
	if len(ids) > 0 {
		a.DirID = ids[0]
	}
	return a, err
}

// other is the error about a state that is about other sides than it is used for, nil for the same. hint
// says what to do.
func (a *syncAbout) other(is *syncAbout, state, hint string) error {
	var was, now string
	switch {
	case a.Dir != is.Dir && (a.DirID == "" || a.DirID != is.DirID):
		was, now = a.Dir, is.Dir
	case a.otherServer(is) && a.sameURL(is.URL) && a.ServerDir != "" && is.ServerDir != "":
		was, now = "the workspace "+a.ServerDir+", which was served at "+a.URL, "the workspace "+is.ServerDir+", which is served there now"
	case a.otherServer(is):
		was, now = "the server "+a.Server, "the server "+is.Server
	case a.Part != is.Part:
		was, now = partText(a.Part), partText(is.Part)
	default:
		return nil
	}
	return refused(hint,
		"the state %s is of %s, and not of %s; nothing was changed", safe(state), safe(was), safe(now))
}

func (a *syncAbout) otherServer(is *syncAbout) bool {
	return a.Server != is.Server && (a.Store == "" || a.Store != is.Store)
}

// sameURL reports whether the server was last at a URL.
func (a *syncAbout) sameURL(url string) bool {
	return strings.TrimSuffix(a.URL, "/") == strings.TrimSuffix(url, "/")
}

// replaced reports whether another workspace is served where the server was: its store is another one, as one
// that was lost, and so is its directory.
func (a *syncAbout) replaced(is *syncAbout) bool {
	return a.Store != "" && is.Store != "" && a.Store != is.Store && a.ServerDir != "" && is.ServerDir != "" && a.ServerDir != is.ServerDir
}

func partText(part string) string {
	if part == "" {
		return "all of the server's workspace"
	}
	return part + " in the server's workspace"
}

// maxStates bounds the states that are looked at for one that is of the same two sides.
const maxStates = 32

// elsewhere finds a state of the directory and the server, which was called otherwise when it was made: by
// a URL, or by none. It is "" if there is none; then l.others, l.parts and l.unread are what the other states
// say. A state that is in use may be the one: without another that is, elsewhere fails with sqlite.ErrInUse.
func (l *syncLocal) elsewhere(ctx context.Context, is *syncAbout) (string, error) {
	files, err := statesAt(is.Dir)
	if err != nil {
		return "", err
	}
	var inUse error
	for _, file := range files[:min(len(files), maxStates)] {
		was, err := aboutOf(ctx, file)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case errors.Is(err, sqlite.ErrInUse):
			inUse = err
		case err != nil:
			l.unread = append(l.unread, fmt.Errorf("look at %s: %w", file, err))
		case was.Dir != is.Dir || was.URL == "":
		case was.otherServer(is):
			l.others = append(l.others, was)
		case was.Part == is.Part:
			l.others, l.parts, l.unread = nil, nil, nil
			return file, nil
		default:
			l.parts = append(l.parts, was.Part)
		}
	}
	return "", inUse
}

// refusePart refuses all of the server's workspace for a directory that was in step with parts of it alone.
func refusePart(dir string, remote *syncRemote, parts []string) error {
	was := remote.serverPath(parts[0])
	return refused("--remote-path "+quoted(was)+" goes on with that; --remote-path "+quoted(remote.mount)+" is all of the workspace",
		"%s was in step with %s at the server, and no --remote-path is given; nothing was changed", safe(dir), safe(was))
}

// aboutOf reads which two sides a state is about. The state is left as it is, also one that a process has open.
func aboutOf(ctx context.Context, file string) (was syncAbout, err error) {
	row, err := sqlite.PeekPeer(ctx, file, tree.DefaultName, mirror.AboutID(""))
	if text := row.Fetch.Path; err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &was)
	}
	return was, err
}

// tellUnread says which states of the directory could not be read, in a first run.
func (j *syncJob) tellUnread() {
	for _, err := range j.local.unread {
		j.out.note("a state of %s is left alone, as if there were none: %s", safe(j.local.dir), safe(err.Error()))
	}
}

// tellOthers says which server it is, if none was named and the directory has only been in step with others.
func (j *syncJob) tellOthers() {
	if j.target.running == nil || len(j.local.others) == 0 {
		return
	}
	was := &j.local.others[0]
	url := was.URL
	if strings.TrimSuffix(url, "/") == strings.TrimSuffix(j.target.url, "/") {
		j.out.note("no server was named, and %s at %s is the one that you started last; %s was in step with another workspace, which was served at the same URL",
			safe(j.target.running.Workspace), safe(url), safe(j.local.dir))
		return
	}
	j.out.note("no server was named, and %s is the one that you started last; %s was in step with another one, %s; to synchronise with that: %s",
		safe(j.target.url), safe(j.local.dir), safe(url), j.againWith(was))
}

// ownState says how two sides get a state of their own.
func (l *syncLocal) ownState() string {
	if l.named {
		return "each two sides have a state of their own: name another --state, or none; where both sides are the same, that needs no other flag"
	}
	return "--state FILE keeps a state of its own for these two sides; " + l.anew()
}

// checkAbout refuses a state that is about other sides. One that does not say, since it is new or of an
// earlier version, is about these from now on.
func (l *syncLocal) checkAbout(ctx context.Context, t *tree.Tree, is *syncAbout, dry bool) error {
	l.replaced = nil
	text, err := mirror.About(ctx, t, "")
	if err != nil {
		return err
	}
	if text == "" {
		err = l.checkState(ctx, t)
	} else {
		var was syncAbout
		if err := json.Unmarshal([]byte(text), &was); err != nil {
			return fmt.Errorf("read what the state is about: %w: %w", tree.ErrDamaged, err)
		}
		if err = was.other(is, l.db.Path(), l.ownState()); err == nil && was == *is {
			return nil
		}
		if err == nil && was.Dir == is.Dir && was.DirID != "" && is.DirID != "" && was.DirID != is.DirID {
			to := *is
			l.moved = &to
		}
		if err == nil && was.replaced(is) {
			l.replaced = &replacedServer{was, *is, dry}
			return nil
		}
	}
	if err != nil || dry || l.moved != nil {
		return err
	}
	return setAbout(ctx, t, is)
}

// takePlace has the state be of the directory that is there from now on, once that is in step.
func (l *syncLocal) takePlace(ctx context.Context) error {
	if l.moved == nil {
		return nil
	}
	err := setAbout(ctx, l.disk.Tree(), l.moved)
	if err == nil {
		l.moved = nil
	}
	return err
}

// checkReplacedDir refuses another directory at the place of the one that was in step if it has none of its files: all
// of them would be removed at the server. A copy, a clone or a mount that is another one has some.
func (l *syncLocal) checkReplacedDir(ctx context.Context, t *tree.Tree, limit *deleteLimit) error {
	if l.moved == nil || l.replaced != nil {
		return nil
	}
	if begun, err := mirror.Begun(ctx, t, ""); err != nil || !begun {
		return err
	}
	had, err := disk.Files(ctx, t, localMount)
	if err != nil || had == 0 || limit.given && limit.allows(had, had) {
		return err
	}
	err = t.Walk(ctx, localMount, func(i *tree.FileInfo) error {
		if i.Kind == tree.KindDir {
			return nil
		}
		if _, err := os.Lstat(filepath.Join(l.dir, filepath.FromSlash(rawname.Raw(localName(i.Path))))); err == nil {
			return errHasSome
		}
		return nil // it is not there, or in a directory that is closed, and perhaps another one
	})
	if errors.Is(err, errHasSome) {
		return nil
	}
	if err != nil {
		return err
	}
	return refused("bring that one back and run it again, or with --state "+quoted(l.db.Path())+" where it is now; if all of it is to go at the server too, say --max-delete 100%; "+l.anew(),
		"%s is another directory than the one that was in step, and has none of its %s; nothing was changed", safe(l.dir), filesText(had))
}

// errHasSome ends a walk.
var errHasSome = errors.New("a file is there")

func setAbout(ctx context.Context, t *tree.Tree, is *syncAbout) error {
	now, err := json.Marshal(is)
	if err == nil {
		err = mirror.SetAbout(ctx, t, "", string(now))
	}
	return err
}

// knows looks whether a server that was connected to again is still the one that the state is of.
func (l *syncLocal) knows(ctx context.Context, remote *syncRemote, target *syncTarget) error {
	about, err := remote.about(l.dir, target)
	if err != nil {
		return err
	}
	return l.checkAbout(ctx, l.disk.Tree(), &about, false)
}

// A replacedServer serves another workspace than the one that a state is of. If that has files, it is
// hardly meant.
type replacedServer struct {
	was, is syncAbout
	dry     bool
}

// meetReplaced refuses another workspace at the place of the server, unless it has nothing.
func (j *syncJob) meetReplaced(ctx context.Context, m *mirror.Mirror) error {
	r := j.local.replaced
	if r == nil {
		return nil
	}
	empty, err := m.Empty(ctx)
	if err != nil {
		return err
	}
	if !empty {
		return j.refuseReplaced()
	}
	if !r.dry {
		err = setAbout(ctx, j.local.disk.Tree(), &r.is)
	}
	j.local.replaced = nil
	return err
}

func (j *syncJob) refuseReplaced() error {
	r := j.local.replaced
	return refused("is the URL right? A state of its own, --state FILE, keeps both apart; "+j.anew(),
		"%s was in step with the workspace %s of the server, which serves %s now; nothing was changed", safe(j.local.dir), safe(r.was.ServerDir), safe(r.is.ServerDir))
}

// checkState refuses the store of a server.
func (l *syncLocal) checkState(ctx context.Context, t *tree.Tree) error {
	dir, _, err := disk.Directory(ctx, t, localMount)
	if err != nil || dir == "" || dir == l.dir {
		return err
	}
	if begun, err := mirror.Begun(ctx, t, ""); err != nil || begun {
		return err
	}
	return refused("name another --state, or none", "%s is the store of a server of %s, and no state of 'wsd sync'; nothing was changed", safe(l.db.Path()), safe(dir))
}
