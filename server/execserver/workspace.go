package execserver

import (
	"errors"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lineage"
	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/stream"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/computer"
	"github.com/wsd-dev/wsd/server/workspace"
)

// registerWorkspace adds the methods that only a server with a workspace has.
func registerWorkspace(t *rpc.Table) {
	workspace.Register(t)
	stream.Register(t)
	changes.Register(t)
	shell.Register(t)
}

// workspaceServices are those of a connection, in the order in which one needs another.
func workspaceServices(n rpc.Notifier, cfg *Config) []rpc.Service {
	w := cfg.Workspace
	if w == nil {
		return nil
	}
	streams := stream.New(n, stream.Config{Logger: cfg.Logger})
	runs := shell.NewService(w.Runs, streams)
	if who, ok := n.(interface{ Client() (name, peer string) }); ok {
		runs.SetClient(who.Client())
	}
	return []rpc.Service{streams, changes.NewService(w.Sync, streams), runs, workspace.NewService(w)}
}

// Routes are the pages of a server's workspace for the clients of Cloudflare's computer,
// for the HTTPConfig of its endpoints. nil without a workspace.
func Routes(srv *server.Server, cfg Config) map[string]http.Handler {
	w := cfg.Workspace
	if w == nil {
		return nil
	}
	return computer.New(computer.Config{
		Peer: w.Sync.PlainNames(), Runs: w.Runs, MountPoint: w.MountPoint, Hidden: w.Ignore, Version: cfg.Version, Place: place(&cfg), Logger: cfg.Logger,
	}).Routes(srv)
}

// place is where the workspace is; nil without one.
func place(cfg *Config) *protocol.WorkspacePlace {
	w := cfg.Workspace
	if w == nil {
		return nil
	}
	p := &protocol.WorkspacePlace{Dir: w.Dir, Store: strconv.FormatInt(w.Born.UnixNano(), 36)}
	var err, storeErr error
	p.Lineage, err = lineage.Of(w.Dir)
	p.StoreDir, storeErr = lineage.Of(filepath.Dir(w.Store))
	if err = errors.Join(err, storeErr); err != nil && cfg.Logger != nil {
		cfg.Logger.Warn("clients on this machine are not told where the workspace is", "err", err)
	}
	return p
}

// mount is where commands of a client's see the workspace; nil without one.
func mount(w *workspace.Workspace) *process.Mount {
	if w == nil {
		return nil
	}
	return w.Mount
}

// mountPoint is where clients see it; "" without one.
func mountPoint(w *workspace.Workspace) string {
	if w == nil {
		return ""
	}
	return w.MountPoint
}
