package fs

import (
	"context"
	"errors"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

const family = "filesystem"

// The orders of methods whose requests are mostly about one small file.
var (
	quickReads  = rpc.Quick(rpc.ReadsFiles)
	quickWrites = rpc.Quick(rpc.ChangesFiles)
)

// method describes a method with a path: where its parameters have the sandbox, and
// which paths it changes.
type method[P, R any] struct {
	name    string
	order   rpc.Order
	sandbox func(*P) **protocol.Sandbox
	// changes lists the entries that are locked against other writes meanwhile. With
	// locksItself, run sees to that when it is here that the method runs.
	changes     func(*P) []entry
	locksItself bool
	// here, if set, does for some sandboxes what a helper would do; false if it does not.
	here func(*Service, context.Context, *P) (*R, bool, error)
	// payload, if set, is the large member of the parameters.
	payload func(*P) *[]byte
	// inBlocks, if set, does what a helper cannot answer in one message.
	inBlocks func(*Service, context.Context, *helper, *P) (*R, error)

	paramsError func(error) error
}

// Register adds the fs/* methods to t. They are served by a *Service.
func Register(t *rpc.Table) {
	add(t, method[protocol.ReadFileParams, protocol.ReadFileResult]{
		name: protocol.MethodFsReadFile, order: quickReads,
		sandbox:  func(p *protocol.ReadFileParams) **protocol.Sandbox { return &p.Sandbox },
		here:     (*Service).readFileHere,
		inBlocks: (*Service).readFileInBlocks,
	}, (*Service).readFile)
	add(t, method[protocol.WriteFileParams, protocol.WriteFileResult]{
		name: protocol.MethodFsWriteFile, order: quickWrites, locksItself: true,
		sandbox:     func(p *protocol.WriteFileParams) **protocol.Sandbox { return &p.Sandbox },
		payload:     func(p *protocol.WriteFileParams) *[]byte { return &p.DataBase64 },
		changes:     func(p *protocol.WriteFileParams) []entry { return []entry{{p.Path, isTrue(p.FollowSymlinks)}} },
		paramsError: writeFileParamsError,
	}, (*Service).writeFile)
	add(t, method[protocol.CreateDirectoryParams, protocol.Empty]{
		name: protocol.MethodFsCreateDirectory, order: rpc.ChangesFiles,
		sandbox: func(p *protocol.CreateDirectoryParams) **protocol.Sandbox { return &p.Sandbox },
	}, (*Service).createDirectory)
	add(t, method[protocol.GetMetadataParams, protocol.Metadata]{
		name: protocol.MethodFsGetMetadata, order: quickReads,
		sandbox: func(p *protocol.GetMetadataParams) **protocol.Sandbox { return &p.Sandbox },
	}, (*Service).getMetadata)
	add(t, method[protocol.PathParams, protocol.PathResult]{
		name: protocol.MethodFsCanonicalize, order: quickReads, sandbox: pathSandbox,
	}, (*Service).canonicalize)
	add(t, method[protocol.ReadDirectoryParams, protocol.ReadDirectoryResult]{
		name: protocol.MethodFsReadDirectory, order: rpc.ReadsFiles,
		sandbox: func(p *protocol.ReadDirectoryParams) **protocol.Sandbox { return &p.Sandbox },
	}, (*Service).readDirectory)
	add(t, method[protocol.WalkParams, protocol.WalkResult]{
		name: protocol.MethodFsWalk, order: rpc.ReadsFiles,
		sandbox: func(p *protocol.WalkParams) **protocol.Sandbox { return &p.Sandbox },
	}, (*Service).walk)
	add(t, method[protocol.RemoveParams, protocol.Empty]{
		name: protocol.MethodFsRemove, order: rpc.ChangesFiles,
		sandbox: func(p *protocol.RemoveParams) **protocol.Sandbox { return &p.Sandbox },
		changes: func(p *protocol.RemoveParams) []entry { return []entry{{p.Path, false}} },
	}, (*Service).remove)
	add(t, method[protocol.CopyParams, protocol.Empty]{
		name: protocol.MethodFsCopy, order: rpc.ChangesFiles, locksItself: true,
		sandbox: func(p *protocol.CopyParams) **protocol.Sandbox { return &p.Sandbox },
		changes: func(p *protocol.CopyParams) []entry {
			if p.Recursive {
				return nil // a tree has no one entry; holding its top while files in it are locked could wait in a circle
			}
			return []entry{{p.DestinationPath, true}}
		},
	}, (*Service).copy)
	registerStreams(t)
	registerAdditive(t)
}

func registerStreams(t *rpc.Table) {
	// fs/open has an order of its own: see Service.open.
	rpc.Handle(t, rpc.Spec[protocol.OpenParams]{
		Name: protocol.MethodFsOpen, Family: family, Order: rpc.Always[protocol.OpenParams](rpc.ChangesFiles),
	}, answer((*Service).open))
	rpc.Handle(t, rpc.Spec[protocol.ReadBlockParams]{
		Name: protocol.MethodFsReadBlock, Family: family, Order: rpc.Always[protocol.ReadBlockParams](rpc.ReadsFiles),
	}, answer((*Service).readBlock))
	rpc.Handle(t, rpc.Spec[protocol.WriteBlockParams]{
		Name: protocol.MethodFsWriteBlock, Family: family, Order: rpc.Always[protocol.WriteBlockParams](rpc.ChangesFiles),
		Payload: func(p *protocol.WriteBlockParams) *[]byte { return &p.Chunk },
		ParamsError: func(err error) error {
			if _, ok := errors.AsType[*wire.Base64Error](err); ok {
				return protocol.InvalidParams("%v", err)
			}
			return protocol.InvalidParams("%s: %v", protocol.MethodFsWriteBlock, err)
		},
	}, answer((*Service).writeBlock))
	rpc.Handle(t, rpc.Spec[protocol.CloseHandleParams]{
		Name: protocol.MethodFsClose, Family: family, Order: rpc.Always[protocol.CloseHandleParams](rpc.ChangesFiles),
	}, answer((*Service).closeHandle))
}

func registerAdditive(t *rpc.Table) {
	add(t, method[protocol.RenameParams, protocol.Empty]{
		name: protocol.MethodFsRename, order: rpc.ChangesFiles,
		sandbox: func(p *protocol.RenameParams) **protocol.Sandbox { return &p.Sandbox },
		changes: func(p *protocol.RenameParams) []entry {
			return []entry{{p.SourcePath, false}, {p.DestinationPath, false}}
		},
	}, (*Service).rename)
	add(t, method[protocol.SymlinkParams, protocol.Empty]{
		name: protocol.MethodFsSymlink, order: rpc.ChangesFiles,
		sandbox: func(p *protocol.SymlinkParams) **protocol.Sandbox { return &p.Sandbox },
	}, (*Service).symlink)
	add(t, method[protocol.PathParams, protocol.ReadLinkResult]{
		name: protocol.MethodFsReadLink, order: quickReads, sandbox: pathSandbox,
	}, (*Service).readLink)
	add(t, method[protocol.ChmodParams, protocol.Empty]{
		name: protocol.MethodFsChmod, order: rpc.ChangesFiles,
		sandbox: func(p *protocol.ChmodParams) **protocol.Sandbox { return &p.Sandbox },
		changes: func(p *protocol.ChmodParams) []entry { return []entry{{p.Path, true}} },
	}, (*Service).chmod)
	add(t, method[protocol.GlobParams, protocol.GlobResult]{
		name: protocol.MethodFsGlob, order: rpc.LooksAtFiles,
		sandbox: func(p *protocol.GlobParams) **protocol.Sandbox { return &p.Sandbox },
	}, (*Service).glob)
	add(t, method[protocol.GrepParams, protocol.GrepResult]{
		name: protocol.MethodFsGrep, order: rpc.LooksAtFiles,
		sandbox: func(p *protocol.GrepParams) **protocol.Sandbox { return &p.Sandbox },
	}, (*Service).grep)
	// Those of one id keep their order, and changes that are to be seen wait.
	rpc.Handle(t, rpc.Spec[protocol.WatchParams]{
		Name: protocol.MethodFsWatch, Family: family,
		Order: func(p *protocol.WatchParams) rpc.Order {
			return rpc.SetsUpWatch.And(rpc.Serial("fs/watch " + p.WatchID))
		},
	}, answer((*Service).watch))
	rpc.Handle(t, rpc.Spec[protocol.UnwatchParams]{
		Name: protocol.MethodFsUnwatch, Family: family,
		Order: func(p *protocol.UnwatchParams) rpc.Order {
			return rpc.SetsUpWatch.And(rpc.Serial("fs/watch " + p.WatchID))
		},
	}, answer((*Service).unwatch))
	// One watch replaces the other, so the calls keep their order, among themselves.
	rpc.Handle(t, rpc.Spec[protocol.WatchMissingParams]{
		Name: protocol.MethodFsWatchMissing, Family: family,
		Order: rpc.Always[protocol.WatchMissingParams](rpc.SetsUpWatch.And(rpc.Serial("fs/watchMissing"))),
	}, answer((*Service).watchMissing))
}

func pathSandbox(p *protocol.PathParams) **protocol.Sandbox { return &p.Sandbox }

// answer gives the errors of run their wire form.
func answer[P, R any](run func(*Service, context.Context, *P) (R, error)) func(*Service, context.Context, *P) (R, error) {
	return func(s *Service, ctx context.Context, p *P) (R, error) {
		result, err := run(s, ctx, p)
		return result, wireError(err)
	}
}

// add registers a method that runs here or, with a sandbox, where that has it run.
func add[P, R any](t *rpc.Table, m method[P, R], run func(*Service, context.Context, *P) (*R, error)) {
	rpc.Handle(t, rpc.Spec[P]{
		Name: m.name, Family: family, Order: rpc.Always[P](m.order), ParamsError: m.paramsError, Payload: m.payload,
	}, answer(func(s *Service, ctx context.Context, p *P) (*R, error) {
		box := m.sandbox(p)
		if m.here != nil && *box != nil && s.sandbox != nil {
			if result, done, err := m.here(s, ctx, p); done {
				return result, err
			}
		}
		h, release, err := s.helperFor(ctx, *box)
		if err != nil {
			return nil, err
		}
		defer release()
		var unlock func()
		if m.changes != nil && (h != nil || !m.locksItself) {
			if unlock, err = s.host.locks.lockEntries(ctx, m.changes(p)); err != nil {
				return nil, err
			}
		}
		if h == nil {
			if unlock != nil {
				defer unlock()
			}
			return run(s, ctx, p)
		}
		*box = nil
		result := new(R)
		if unlock != nil {
			err = h.change(ctx, unlock, m.name, p, result)
		} else {
			err = h.call(ctx, m.name, p, result)
		}
		if m.inBlocks != nil && isReadInBlocks(err) {
			return m.inBlocks(s, ctx, h, p)
		}
		if err != nil {
			return nil, err
		}
		return result, nil
	}))
}

// isTrue reads an optional member whose default is true.
func isTrue(b *bool) bool { return b == nil || *b }

// isSet reads an optional member whose default is false.
func isSet(b *bool) bool { return b != nil && *b }
