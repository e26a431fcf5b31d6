package simnet

import (
	"context"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Between puts itself between an end and the real socket conn: what the end that it
// returns writes goes through cfg.Forth to conn, what conn reads through cfg.Back to
// the end. Closing either closes the other, after what is on its way; what cannot get
// away is given up after a second. It is the way to put an attacker next to real parts.
func Between(conn rpc.Connection, cfg CarrierConfig) *Tapped {
	near, far := Carriers(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	t := &Tapped{Carrier: near, Far: far, conn: conn, cancel: cancel}
	// Both end with the carrier or the socket; Wait waits for them.
	t.pumps.Go(func() { t.pump(ctx, conn, far) })
	t.pumps.Go(func() { t.pump(ctx, far, conn) })
	return t
}

// A Tapped is an end with somebody in between.
type Tapped struct {
	*Carrier
	// Far is the other end of the simulated part: injecting there forges frames to this
	// end, injecting at the Tapped forges frames of it.
	Far *Carrier

	conn   rpc.Connection
	cancel context.CancelFunc
	pumps  sync.WaitGroup
}

func (t *Tapped) pump(ctx context.Context, from, to rpc.Connection) {
	defer t.stop()
	for {
		msg, err := from.Read(ctx)
		if err != nil {
			return
		}
		if err := to.Write(ctx, msg); err != nil {
			return
		}
	}
}

func (t *Tapped) stop() {
	t.cancel()
	_ = t.Far.Close()
	_ = t.conn.Close()
}

// Close implements rpc.Connection.
func (t *Tapped) Close() error {
	_ = t.Carrier.Close()
	time.AfterFunc(time.Second, t.stop)
	return nil
}

// Wait returns when nothing of t runs any more, after Close.
func (t *Tapped) Wait() { t.pumps.Wait() }

// Watched returns conn with a trace of the frames that go through it, as name.
func Watched(conn rpc.Connection, trace *Trace, name string) rpc.Connection {
	return &watched{Connection: conn, trace: trace, name: name}
}

type watched struct {
	rpc.Connection
	trace *Trace
	name  string
}

func (w *watched) Read(ctx context.Context) ([]byte, error) {
	msg, err := w.Connection.Read(ctx)
	if err == nil {
		w.trace.frame(w.name+" <", Delivery{Frame: msg})
	}
	return msg, err
}

func (w *watched) Write(ctx context.Context, msg []byte) error {
	w.trace.frame(w.name+" >", Delivery{Frame: msg})
	return w.Connection.Write(ctx, msg)
}

// CloseFault implements rpc.FaultCloser, which conn may not be.
func (w *watched) CloseFault(code int, reason string) error {
	if f, ok := w.Connection.(rpc.FaultCloser); ok {
		return f.CloseFault(code, reason)
	}
	return w.Connection.Close()
}
