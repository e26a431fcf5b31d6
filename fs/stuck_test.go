package fs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// A stuckSandbox has one helper, which answers no request that changes files, and lives on
// after its connection until a test ends it.
type stuckSandbox struct {
	idleSandbox
	asked  chan *rpc.Request // what is not answered
	gone   chan struct{}
	hangUp func() // closes the helper's end of the connection
}

func newStuckSandbox() *stuckSandbox {
	return &stuckSandbox{asked: make(chan *rpc.Request, 1), gone: make(chan struct{})}
}

func (s *stuckSandbox) Start(context.Context, *protocol.Sandbox) (rpc.Connection, error) {
	near, far := rpc.Pair()
	helper := rpc.NewPeer(far, rpc.PeerConfig{Handler: s})
	s.hangUp = func() { _ = helper.Close() }
	go func() { // ends with the connection
		_ = helper.Serve(context.Background())
		_ = helper.Close()
	}()
	return stuckConn{near, s.gone}, nil
}

func (s *stuckSandbox) HandleRequest(_ context.Context, req *rpc.Request) {
	if req.Method == protocol.MethodFsOpen {
		req.ReplyInline(protocol.OpenResult{HandleID: "x"}, nil)
		return
	}
	s.asked <- req
}

func (*stuckSandbox) HandleNotification(context.Context, string, []byte) error { return nil }

type stuckConn struct {
	rpc.Connection
	gone chan struct{}
}

func (c stuckConn) Gone() <-chan struct{} { return c.gone }

// A stuckWrite is a change of the file f, which has "old", that a helper does not end.
type stuckWrite struct {
	*testing.T
	box   *stuckSandbox
	host  *fs.Host
	path  string
	ended chan struct{} // closed when the connection with the helper has ended
	end   func()        // ends it
	err   chan error    // what the client with the helper gets
	uri   string
}

// stuck plays a test in a bubble. change asks for the change.
func stuck(t *testing.T, change func(peer *rpc.Peer, uri string) error, fn func(w *stuckWrite)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &stuckWrite{T: t, box: newStuckSandbox(), host: fs.NewHost(), ended: make(chan struct{}), err: make(chan error, 1)}
		w.path = filepath.Join(t.TempDir(), "f")
		w.uri = fileuri.Format(w.path)
		w.put("old")
		conn, end := serve(t, fs.Config{Sandbox: w.box, Host: w.host})
		peer := rpc.NewPeer(conn, rpc.PeerConfig{Handler: clientHandler{notes: make(chan note, 1)}})
		served := make(chan struct{})
		go func() { defer close(served); _ = peer.Serve(context.Background()) }() // ends with the connection
		go func() { w.err <- change(peer, w.uri) }()                              // ends with the connection
		w.end = func() {
			go func() { // ends with the Service
				defer close(w.ended)
				end()
				_ = peer.Close()
				<-served
			}()
			synctest.Wait()
		}
		fn(w)
	})
}

func (w *stuckWrite) put(content string) {
	w.Helper()
	if err := os.WriteFile(w.path, []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
}

// overwrite has another connection write the file if it has "old", and returns what gets
// the error of that.
func (w *stuckWrite) overwrite() chan error {
	conn, end := serve(w.T, fs.Config{Host: w.host})
	peer := rpc.NewPeer(conn, rpc.PeerConfig{})
	answered := make(chan error, 1)
	go func() { _ = peer.Serve(context.Background()) }() // ends with the connection
	go func() {                                          // ends with the connection
		err := peer.Call(context.Background(), "fs/writeFile", object{"path": w.uri, "dataBase64": b64("new"), "ifMatch": hash("old")}, nil)
		_ = peer.Close()
		end()
		answered <- err
	}()
	synctest.Wait()
	return answered
}

// waits checks that another's write waits.
func (w *stuckWrite) waits(answered chan error) {
	w.Helper()
	synctest.Wait()
	select {
	case err := <-answered:
		w.Errorf("another's write has not waited: %v", err)
		answered <- err
	default:
	}
}

var stuckChanges = map[string]func(peer *rpc.Peer, uri string) error{
	"fs/writeFile": func(peer *rpc.Peer, uri string) error {
		return peer.Call(context.Background(), "fs/writeFile", object{"path": uri, "dataBase64": b64("late"), "sandbox": box("x")}, nil)
	},
	"fs/close": func(peer *rpc.Peer, uri string) error {
		err := peer.Call(context.Background(), "fs/open", object{"path": uri, "handleId": "h", "mode": "replace", "sandbox": box("x")}, nil)
		if err != nil {
			return err
		}
		return peer.Call(context.Background(), "fs/close", object{"handleId": "h"}, nil)
	},
}

// TestLockOutlivesConnection: the end of a connection does not let another write to an
// entry that a helper of the first still may write. It does not wait for that helper.
func TestLockOutlivesConnection(t *testing.T) {
	for name, change := range stuckChanges {
		t.Run(name, func(t *testing.T) {
			stuck(t, change, func(w *stuckWrite) {
				<-w.box.asked
				answered := w.overwrite()
				w.waits(answered)
				w.end()
				select {
				case <-w.ended:
				default:
					t.Error("the end of the connection waits for the helper")
				}
				w.waits(answered)
				w.put("late") // the helper's write
				close(w.box.gone)
				if err := <-answered; err == nil {
					t.Error("the helper's write was replaced unseen")
				}
				<-w.ended
				if err := <-w.err; err == nil {
					t.Error("the client without a connection has an answer")
				}
				synctest.Wait()
				if n := w.host.Locks(); n > 0 {
					t.Errorf("%d entries are locked", n)
				}
			})
		})
	}
}

// TestLockOutlivesHelper: a helper that only closes its connection keeps the lock until it
// is gone; its client is told at once.
func TestLockOutlivesHelper(t *testing.T) {
	for name, change := range stuckChanges {
		t.Run(name, func(t *testing.T) {
			stuck(t, change, func(w *stuckWrite) {
				<-w.box.asked
				answered := w.overwrite()
				w.box.hangUp()
				if err := <-w.err; err == nil {
					t.Error("the client of a helper that is gone has an answer")
				}
				w.waits(answered)
				w.put("late") // the helper's write
				close(w.box.gone)
				if err := <-answered; err == nil {
					t.Error("the helper's write was replaced unseen")
				}
				w.end()
				<-w.ended
			})
		})
	}
}
