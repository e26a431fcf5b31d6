package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/tree"
)

// syncMade is a "made" or a "missing" of --json.
type syncMade struct {
	Type string `json:"type"`
	Side string `json:"side"` // "server"
	Path string `json:"path"` // in the server's tree
}

// serverPath is a path of the workspace, or "" for all of it, in the server's tree.
func (r *syncRemote) serverPath(part string) string {
	return path.Join("/", strings.TrimSuffix(r.mount, r.part), part)
}

// hasMount reports whether the server has something at the path that is synchronised.
func (r *syncRemote) hasMount(ctx context.Context) (bool, error) {
	e, err := r.peer.ReadEntry(ctx, r.mount)
	if err != nil {
		return false, fmt.Errorf("read %s at the server: %w", r.mount, err)
	}
	return e != nil && e.Kind != tree.KindDelete, nil
}

// meetAt is meet over a connection. It notes whether the directory of --remote-path is missing at the server. It does
// not ask for it if both sides were in step and this side has files that are synchronised: the directory was there then.
func (j *syncJob) meetAt(ctx context.Context, remote *syncRemote) error {
	m, looks := j.mirror(remote), !j.met && remote.part != ""
	if looks {
		begun, err := mirror.Begun(ctx, j.local.disk.Tree(), "")
		if err != nil {
			return err
		}
		has, err := m.HasFiles(ctx)
		if err != nil {
			return err
		}
		looks = !begun || !has
	}
	if err := j.meet(ctx, m); err != nil || !looks {
		return err
	}
	if _, err := remote.peer.Watermarks(ctx, true); err != nil {
		return fmt.Errorf("read the server's watermarks: %w", err)
	}
	has, err := remote.hasMount(ctx)
	if err == nil && !has {
		j.makes = remote
	}
	return err
}

// afterTick takes note of a tick over a connection that has succeeded.
func (j *syncJob) afterTick(ctx context.Context, remote *syncRemote, r *mirror.Result) error {
	if err := j.local.takePlace(ctx); err != nil {
		return err
	}
	return j.tellMade(ctx, remote, r.Pushed > 0 && r.Changed == 0)
}

// tellMade says once that the run has made the directory of --remote-path at the server, or that it is missing there: it
// may be a wrong name. With sent the run has sent something and got nothing; else somebody else has made the directory.
func (j *syncJob) tellMade(ctx context.Context, remote *syncRemote, sent bool) error {
	if j.makes == nil {
		return nil
	}
	has, err := remote.hasMount(ctx)
	if err != nil {
		return err
	}
	if !has {
		if !j.missed {
			j.out.made("missing", missingThere, remote)
		}
		j.missed = true
		return nil
	}
	if j.makes = nil; sent {
		j.out.made("made", "made the directory %s at the server: nothing was there", remote)
	}
	return nil
}

// missingThere is said of a directory that a run does not make, since it has nothing to send.
const missingThere = "there is no directory %s at the server: nothing comes from there, and it is made as soon as there is something to send"

// made says in a text, or as an object of --json, that the directory that is synchronised is new or missing at the server.
func (o *syncOutput) made(what, text string, remote *syncRemote) {
	if o.enc != nil {
		o.object(syncMade{what, "server", remote.mount})
		return
	}
	text = fmt.Sprintf(text, safe(remote.mount))
	if parts := o.job.local.parts; len(parts) > 0 {
		text += fmt.Sprintf("; %s was in step with %s before", safe(o.job.local.dir), safe(remote.serverPath(parts[0])))
	}
	o.line(o.stderr, "%s", text)
}
