package execserver

import (
	"context"
	"os"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/lineconn"
)

// Roles are what a program with a server of this package hands to sandbox.Main: the
// helper that is confined and serves fs/* to the server over stdin and stdout.
func Roles() map[string]func() error {
	return map[string]func() error{"fs": serveFiles}
}

func serveFiles() error {
	return serveFilesOn(context.Background(), lineconn.New(os.Stdin, os.Stdout, os.Stdin.Close))
}

// serveFilesOn serves fs/*, without a handshake, until conn ends.
func serveFilesOn(ctx context.Context, conn rpc.Connection) error {
	scope := fsTable.NewScope()
	dispatcher := rpc.NewDispatcher(scope, rpc.DispatcherConfig{})
	peer := rpc.NewPeer(conn, rpc.PeerConfig{Handler: requestsOnly{dispatcher}})
	service := fs.NewService(peer, fs.Config{})
	scope.Bind(service)
	ctx, cancel := context.WithCancel(ctx)
	err := peer.Serve(ctx)
	cancel()
	dispatcher.Wait()
	_ = peer.Close() // never fails
	if closing := service.Close(); err == nil {
		err = closing
	}
	return err
}

// requestsOnly is a Dispatcher whose peer sends no notifications.
type requestsOnly struct{ *rpc.Dispatcher }

// HandleNotification implements rpc.Handler.
func (requestsOnly) HandleNotification(context.Context, string, []byte) error { return nil }
