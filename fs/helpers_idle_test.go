package fs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// idleSandbox starts helpers that answer everything with {}, and counts them.
type idleSandbox struct{ started, ended atomic.Int32 }

func (*idleSandbox) Direct(*protocol.Sandbox) (bool, error) { return false, nil }

func (*idleSandbox) Open(*protocol.Sandbox, string) (int, bool) { return -1, false }

func (*idleSandbox) Generation() uint64 { return 0 }

func (s *idleSandbox) Start(context.Context, *protocol.Sandbox) (rpc.Connection, error) {
	near, far := rpc.Pair()
	helper := rpc.NewPeer(far, rpc.PeerConfig{Handler: yesHandler{}})
	s.started.Add(1)
	go func() { // ends with the connection
		_ = helper.Serve(context.Background())
		_ = helper.Close()
		s.ended.Add(1)
	}()
	return near, nil
}

type yesHandler struct{}

func (yesHandler) HandleRequest(_ context.Context, req *rpc.Request) {
	req.ReplyInline(protocol.Empty{}, nil)
}

func (yesHandler) HandleNotification(context.Context, string, []byte) error { return nil }

// A helper that nobody uses ends soon, and the next request gets another; while
// requests follow each other it stays.
func TestIdleHelpersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &idleSandbox{}
		conn, end := serve(t, fs.Config{Sandbox: box})
		defer end()
		peer := rpc.NewPeer(conn, rpc.PeerConfig{Handler: clientHandler{notes: make(chan note, 1)}})
		served := make(chan struct{})
		go func() { defer close(served); _ = peer.Serve(context.Background()) }()
		defer func() { _ = peer.Close(); <-served }()
		write := func() {
			t.Helper()
			sandbox := object{"permissions": object{"type": "disabled"}, "windowsSandboxLevel": "disabled"}
			params := object{"path": "file:///x", "dataBase64": "", "sandbox": sandbox}
			if err := peer.Call(t.Context(), "fs/writeFile", params, nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			write()
			time.Sleep(100 * time.Millisecond)
		}
		if n, m := box.started.Load(), box.ended.Load(); n != 1 || m != 0 {
			t.Fatalf("%d helpers started, %d ended while there was work", n, m)
		}
		time.Sleep(time.Second)
		if n := box.ended.Load(); n != 1 {
			t.Fatalf("%d helpers ended after a pause", n)
		}
		write()
		if n := box.started.Load(); n != 2 {
			t.Fatalf("%d helpers started", n)
		}
	})
}
