package execserver

import (
	"net/http"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/computer"
	"github.com/wsd-dev/wsd/server/workspace"
)

// registerWorkspace adds the methods that only a server with a workspace has.
func registerWorkspace(t *rpc.Table) {
	workspace.Register(t)
}

// workspaceServices are those of a connection.
func workspaceServices(_ rpc.Notifier, cfg *Config) []rpc.Service {
	if cfg.Workspace == nil {
		return nil
	}
	return []rpc.Service{workspace.NewService(cfg.Workspace)}
}

// Routes are the pages of a server's workspace for the clients of Cloudflare's computer,
// for the HTTPConfig of its endpoints. nil without a workspace.
func Routes(srv *server.Server, cfg Config) map[string]http.Handler {
	w := cfg.Workspace
	if w == nil {
		return nil
	}
	return computer.New(computer.Config{
		Peer: w.Sync, Runs: w.Runs, MountPoint: w.MountPoint, Version: cfg.Version, Logger: cfg.Logger,
	}).Routes(srv)
}

// mount is where commands of a client's see the workspace; nil without one.
func mount(w *workspace.Workspace) *process.Mount {
	if w == nil {
		return nil
	}
	return w.Mount
}
