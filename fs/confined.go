package fs

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/lineconn"
)

// maxConfinedRead is the most that a helper answers fs/readFile with: its messages
// have the limit of all incoming ones. More is fetched in blocks.
const maxConfinedRead = 16 << 20

// maxConfinedEntries is the most that a helper lists, so that its answer, with the
// metadata of each entry, stays within protocol.MaxMessageBytes.
const maxConfinedEntries = 100_000

// errReadInBlocks is a helper's answer to fs/readFile for a file above that. It does
// not reach clients.
var errReadInBlocks = &protocol.Error{Code: -32098, Message: "file must be read in blocks"}

func isReadInBlocks(err error) bool {
	failure, ok := errors.AsType[*protocol.Error](err)
	return ok && failure.Code == errReadInBlocks.Code
}

// readFileInBlocks is readFile through a helper that cannot answer in one message.
func (s *Service) readFileInBlocks(ctx context.Context, h *helper, p *protocol.ReadFileParams) (result *protocol.ReadFileResult, err error) {
	id := h.newID()
	if err := h.call(ctx, protocol.MethodFsOpen, &protocol.OpenParams{HandleID: id, Path: p.Path}, nil); err != nil {
		return nil, err
	}
	defer func() {
		closeErr := h.call(context.WithoutCancel(ctx), protocol.MethodFsClose, &protocol.CloseHandleParams{HandleID: id}, nil)
		err = errors.Join(err, closeErr)
	}()
	var held content
	var data []byte
	for {
		if err := held.grow(ctx, int64(len(data))+protocol.MaxBlockBytes); err != nil {
			return nil, err
		}
		block := &protocol.ReadBlockResult{}
		err := h.call(ctx, protocol.MethodFsReadBlock, &protocol.ReadBlockParams{
			HandleID: id, Offset: uint64(len(data)), Len: protocol.MaxBlockBytes,
		}, block)
		if err == nil {
			data = append(data, block.Chunk...)
			if len(data) > protocol.MaxReadFileBytes {
				err = errTooLarge
			}
		}
		if err != nil {
			return nil, err
		}
		if block.EOF {
			break
		}
	}
	result = &protocol.ReadFileResult{DataBase64: data}
	if isSet(p.IncludeHash) {
		result.Hash = hashOf(data)
	}
	return result, nil
}

// ServeConfined is the whole of a helper process: it serves fs/* to the server that
// started it, over stdin and stdout, until stdin ends.
func ServeConfined() error {
	if err := serveConfined(context.Background(), lineconn.New(os.Stdin, os.Stdout, os.Stdin.Close)); err != nil {
		return fmt.Errorf("serve files: %w", err)
	}
	return nil
}

// serveConfined serves fs/* on conn until it ends.
func serveConfined(ctx context.Context, conn rpc.Connection) error {
	table := rpc.NewTable()
	Register(table)
	scope := table.NewScope()
	dispatcher := rpc.NewDispatcher(scope, rpc.DispatcherConfig{})
	peer := rpc.NewPeer(conn, rpc.PeerConfig{Handler: confinedHandler{dispatcher}})
	defer peer.Close()
	service := NewService(peer, Config{Host: NewHost()})
	service.confined = true
	scope.Bind(service)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := peer.Serve(ctx)
	cancel()
	dispatcher.Wait()
	return errors.Join(err, service.Close(), peer.Flush(context.WithoutCancel(ctx)))
}

// confinedHandler is what a helper's peer reads for.
type confinedHandler struct{ *rpc.Dispatcher }

func (confinedHandler) HandleNotification(_ context.Context, method string, _ []byte) error {
	return refused("unexpected notification `%s`", method)
}
