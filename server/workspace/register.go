package workspace

import (
	"context"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Register adds the methods about the workspace as a whole, which a *Service serves.
func Register(t *rpc.Table) {
	rpc.Handle(t, rpc.Spec[protocol.CollectParams]{
		Name: protocol.MethodWorkspaceCollect, Family: "workspace",
		Order: rpc.Always[protocol.CollectParams](rpc.Serial("workspace:collect")),
	}, (*Service).collect)
}

// A Service serves the methods of a connection.
type Service struct{ workspace *Workspace }

// NewService makes a Service.
func NewService(w *Workspace) *Service { return &Service{w} }

// Close implements rpc.Service.
func (*Service) Close() error { return nil }

func (s *Service) collect(ctx context.Context, p *protocol.CollectParams) (*protocol.CollectResult, error) {
	c, err := s.workspace.Collect(ctx, p.Now)
	if err != nil {
		return nil, err
	}
	return &protocol.CollectResult{Chunks: c.Chunks, Bytes: c.Bytes, Marked: c.Marked}, nil
}
