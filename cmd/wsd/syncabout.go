package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lineage"
	"github.com/wsd-dev/wsd/fs/tree"
)

// syncAbout is which two sides a state is about, as it is stored there.
type syncAbout struct {
	Dir string `json:"dir"`
	// DirID is the identity of Dir (package lineage), "" if it has none. It stays when Dir is renamed, until
	// the machine is started anew.
	DirID string `json:"dirId,omitempty"`
	// Server is syncTarget.server.
	Server string `json:"server"`
	// Store is the identity of the server's store, "" if the server does not say.
	Store string `json:"store,omitempty"`
	// Part is a directory in the server's workspace, "" for all of it.
	Part string `json:"part,omitempty"`
}

// about is what a state of a directory with the server would be about.
func (r *syncRemote) about(dir string, target *syncTarget) (syncAbout, error) {
	a := syncAbout{Dir: dir, Server: target.server(), Part: r.part}
	if r.place != nil {
		a.Store = r.place.Store
	}
	ids, err := lineage.Of(dir)
	if len(ids) > 0 {
		a.DirID = ids[0]
	}
	return a, err
}

// other is the error about a state that is about other sides than it is used for, nil for the same.
func (a *syncAbout) other(is *syncAbout, state string) error {
	var was, now string
	switch {
	case a.Dir != is.Dir && (a.DirID == "" || a.DirID != is.DirID):
		was, now = a.Dir, is.Dir
	case a.Server != is.Server && (a.Store == "" || a.Store != is.Store):
		was, now = "the server "+a.Server, "the server "+is.Server
	case a.Part != is.Part:
		was, now = partText(a.Part), partText(is.Part)
	default:
		return nil
	}
	return refused("each two sides have a state of their own: name another --state, or none; where both sides are the same, that needs no other flag",
		"the state %s is of %s, and not of %s; nothing was changed", safe(state), safe(was), safe(now))
}

func partText(part string) string {
	if part == "" {
		return "all of the server's workspace"
	}
	return part + " in the server's workspace"
}

// checkAbout refuses a state that is about other sides. One that does not say, since it is new or of an
// earlier version, is about these from now on.
func (l *syncLocal) checkAbout(ctx context.Context, t *tree.Tree, is *syncAbout, dry bool) error {
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
		if err = was.other(is, l.db.Path()); err == nil && was == *is {
			return nil
		}
	}
	if err != nil || dry {
		return err
	}
	now, err := json.Marshal(is)
	if err == nil {
		err = mirror.SetAbout(ctx, t, "", string(now))
	}
	return err
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
