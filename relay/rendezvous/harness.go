package rendezvous

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// A harness is the socket of one.
type harness struct {
	socket

	node     *Node
	executor *executor
	// subject is the token's id and the fingerprint of the key that connect was asked with.
	subject string
	remote  string
	meter   *meter
	began   time.Time
	count   counters

	streams map[string]*route // of executor.routing

	queueing sync.Mutex
	queue    [][]byte
	bytes    int
	writing  bool
	over     bool
	writer   sync.WaitGroup
}

func (h *harness) token() string {
	id, _, _ := strings.Cut(h.subject, ".")
	return id
}

func (h *harness) key() string {
	_, key, _ := strings.Cut(h.subject, ".")
	return key
}

// serve passes on what the harness sends, until its socket ends.
func (h *harness) serve() {
	n, e := h.node, h.executor
	defer n.release(h)
	defer n.meters.leave(h.token(), true)
	who := []slog.Attr{
		slog.String("env", e.env), slog.String("token", h.token()), slog.String("key", h.key()), slog.String("remote", h.remote),
	}
	n.audit.write("enter", who...)
	err := h.receive(func(message []byte) error {
		if err := h.meter.pass(context.Background(), len(message)); err != nil {
			return err
		}
		return e.take(h, message)
	})
	h.shut(closeGoingAway, "closed")
	e.remove(h)
	h.queueing.Lock()
	h.over, h.queue, h.bytes = true, nil, 0
	h.queueing.Unlock()
	h.writer.Wait()
	n.audit.write("leave", append(who, slog.String("reason", h.why(err)),
		slog.Int64("bytesFromHarness", h.count.out.Load()), slog.Int64("bytesToHarness", h.count.in.Load()))...)
}

// send queues a frame, and does not wait: one harness that reads slowly must not hold up
// the executor's socket, which others use. If too much waits already, the harness loses
// its connection.
func (h *harness) send(message []byte) {
	h.queueing.Lock()
	defer h.queueing.Unlock()
	if h.over {
		return
	}
	if len(h.queue) >= MaxQueuedFrames || h.bytes+len(message) > MaxQueuedBytes {
		h.over, h.queue, h.bytes = true, nil, 0
		h.node.log.Warn("a harness reads too slowly", "env", h.executor.env, "conn", h.remote)
		h.writer.Go(func() { h.shut(closeOverload, "reads too slowly") })
		return
	}
	h.queue = append(h.queue, message)
	h.bytes += len(message)
	if !h.writing {
		h.writing = true
		h.writer.Go(h.write)
	}
}

// write writes what is queued, and ends with the queue.
func (h *harness) write() {
	for {
		h.queueing.Lock()
		if len(h.queue) == 0 {
			h.writing = false
			h.queueing.Unlock()
			return
		}
		message := h.queue[0]
		h.queue[0] = nil
		h.queue = h.queue[1:]
		h.bytes -= len(message)
		h.queueing.Unlock()
		if err := h.conn.Write(context.Background(), message); err != nil { // bounded by WriteTimeout
			h.shut(closeGoingAway, "nothing can be written")
			return
		}
	}
}
