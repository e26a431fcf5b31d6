package discovery

import (
	"context"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Files is the part of the fs methods that a Service reads with.
type Files interface {
	GetMetadata(ctx context.Context, p *protocol.GetMetadataParams) (*protocol.Metadata, error)
	ReadFile(ctx context.Context, p *protocol.ReadFileParams) (*protocol.ReadFileResult, error)
	Walk(ctx context.Context, p *protocol.WalkParams) (*protocol.WalkResult, error)
}

// Service serves capabilityRoots/discoverV1 and capabilities/discoverV2.
type Service struct {
	files     Files
	userRoots []UserRoot
}

// NewService makes a Service that reads with files.
func NewService(files Files, cfg Config) *Service {
	if cfg.UserRoots == nil {
		cfg.UserRoots = userRoots()
	}
	return &Service{files: files, userRoots: cfg.UserRoots}
}

// Close implements rpc.Service; there is nothing to end.
func (*Service) Close() error { return nil }

// Register adds the methods of a *Service to t.
func Register(t *rpc.Table) {
	rpc.Handle(t, rpc.Spec[protocol.DiscoverRootsParams]{
		Name: protocol.MethodDiscoverRoots, Family: "capability discovery", Order: rpc.Always[protocol.DiscoverRootsParams](rpc.LooksAtFiles),
	}, (*Service).discoverRoots)
	rpc.Handle(t, rpc.Spec[protocol.DiscoverCapabilitiesParams]{
		Name: protocol.MethodDiscoverCapabilities, Family: "capability discovery", Order: rpc.Always[protocol.DiscoverCapabilitiesParams](rpc.LooksAtFiles),
	}, (*Service).discoverCapabilities)
}

func (s *Service) discoverRoots(ctx context.Context, p *protocol.DiscoverRootsParams) (*protocol.DiscoverRootsResult, error) {
	if len(p.Roots) > protocol.MaxCapabilityRoots {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "capability root discovery accepts at most %d roots", protocol.MaxCapabilityRoots)
	}
	result := &protocol.DiscoverRootsResult{Roots: []protocol.DiscoveredRoot{}}
	left := protocol.MaxCapabilityAnswerBytes
	for _, root := range p.Roots {
		scan := newScan(ctx, s.files, root, &left)
		if err := scan.run(); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		result.Roots = append(result.Roots, scan.out)
	}
	return result, nil
}
