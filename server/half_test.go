package server

import (
	"context"
	"io"
	"sync"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// half is the client's end of a connection whose directions end separately, as those
// of stdio do.
type half struct {
	rpc.Connection
	ended chan struct{}
	once  sync.Once
}

// end ends the direction to the server once what was sent is read.
func (h *half) end() { h.once.Do(func() { close(h.ended) }) }

func (h *half) Close() error {
	h.end()
	return h.Connection.Close()
}

// halfServer is the server's end.
type halfServer struct {
	rpc.Connection
	client *half
}

func (s *halfServer) Read(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.client.ended:
			cancel(io.EOF)
		case <-stop:
		}
	}()
	return s.Connection.Read(ctx)
}

func (w *world) dialHalf() *client {
	w.t.Helper()
	near, far := rpc.Pair()
	h := &half{Connection: far, ended: make(chan struct{})}
	return w.serve(&halfServer{near, h}, h, ConnectionOptions{Final: true, AnswerAll: true})
}
