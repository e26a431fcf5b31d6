package stream

import (
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// Register adds the notifications that a *Set takes to t.
func Register(t *rpc.Table) {
	rpc.HandleNotification(t, protocol.NotifyStreamItems, (*Set).items)
	rpc.HandleNotification(t, protocol.NotifyStreamEnd, (*Set).ended)
	rpc.HandleNotification(t, protocol.NotifyStreamCredit, (*Set).credit)
	rpc.HandleNotification(t, protocol.NotifyStreamCancel, (*Set).cancel)
}

// HandleNotification takes a notification for an end that has no Table. It is false for
// those that are not of streams.
func (s *Set) HandleNotification(method string, params []byte) (bool, error) {
	switch method {
	case protocol.NotifyStreamItems:
		return true, take(s, params, (*Set).items)
	case protocol.NotifyStreamEnd:
		return true, take(s, params, (*Set).ended)
	case protocol.NotifyStreamCredit:
		return true, take(s, params, (*Set).credit)
	case protocol.NotifyStreamCancel:
		return true, take(s, params, (*Set).cancel)
	}
	return false, nil
}

func take[P any](s *Set, raw []byte, fn func(*Set, *P) error) error {
	params := new(P)
	if raw == nil {
		raw = []byte("null")
	}
	if err := wire.Unmarshal(raw, params); err != nil {
		return err
	}
	return fn(s, params)
}

// Streams that are not there are no fault: the other end may not know yet.

func (s *Set) items(p *protocol.StreamItemsParams) error {
	if in := s.findIn(p.StreamID); in != nil {
		in.arrived(p.Items)
	}
	return nil
}

func (s *Set) ended(p *protocol.StreamEndParams) error {
	if in := s.findIn(p.StreamID); in != nil {
		in.finish(errorOf(p.Error))
	}
	return nil
}

func (s *Set) credit(p *protocol.StreamCreditParams) error {
	if p.Bytes < 1 {
		return protocol.Errorf(protocol.CodeInvalidParams, "a credit has a byte at least, not %d", p.Bytes)
	}
	if o := s.findOut(p.StreamID); o != nil {
		o.addCredit(p.Bytes)
	}
	return nil
}

func (s *Set) cancel(p *protocol.StreamCancelParams) error {
	if o := s.findOut(p.StreamID); o != nil {
		err := errorOf(p.Error)
		if err == nil {
			err = ErrCancelled
		}
		o.Stop(err)
	}
	return nil
}
