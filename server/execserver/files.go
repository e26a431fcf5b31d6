package execserver

import (
	"context"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// fsTable has the fs methods only.
var fsTable = func() *rpc.Table {
	t := rpc.NewTable()
	fs.Register(t)
	return t
}()

// files is discovery.Files on the fs methods of a connection, sandbox included.
type files struct{ scope *rpc.Scope }

func newFiles(service *fs.Service) files {
	scope := fsTable.NewScope()
	scope.Bind(service)
	return files{scope}
}

func (f files) GetMetadata(ctx context.Context, p *protocol.GetMetadataParams) (*protocol.Metadata, error) {
	return rpc.Invoke[protocol.GetMetadataParams, *protocol.Metadata](ctx, f.scope, protocol.MethodFsGetMetadata, p)
}

func (f files) ReadFile(ctx context.Context, p *protocol.ReadFileParams) (*protocol.ReadFileResult, error) {
	return rpc.Invoke[protocol.ReadFileParams, *protocol.ReadFileResult](ctx, f.scope, protocol.MethodFsReadFile, p)
}

func (f files) Walk(ctx context.Context, p *protocol.WalkParams) (*protocol.WalkResult, error) {
	return rpc.Invoke[protocol.WalkParams, *protocol.WalkResult](ctx, f.scope, protocol.MethodFsWalk, p)
}
