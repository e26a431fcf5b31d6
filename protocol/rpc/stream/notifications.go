package stream

import (
	"maps"
	"slices"

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
	rpc.OnBadNotification(t, protocol.NotifyStreamItems, (*Set).misread)
	rpc.OnBadNotification(t, protocol.NotifyStreamEnd, (*Set).misread)
	rpc.OnUnreadable(t, (*Set).Unreadable)
}

// Announce has OnArrival call the Set of a service when a request comes whose parameters P
// name a stream: what comes behind the request is of it. The method must have been added,
// and its service calls Receive.
func Announce[S, P any](t *rpc.Table, method string, of func(service S, params *P) (*Set, *protocol.StreamParam)) {
	rpc.OnArrival(t, method, func(service S, params *P) error {
		set, p := of(service, params)
		return set.announce(p)
	})
}

// HandleNotification takes a notification for an end that has no Table. It is false for
// those that are not of streams.
func (s *Set) HandleNotification(method string, params []byte) (bool, error) {
	switch method {
	case protocol.NotifyStreamItems:
		return true, take(s, params, (*Set).items, (*Set).misread)
	case protocol.NotifyStreamEnd:
		return true, take(s, params, (*Set).ended, (*Set).misread)
	case protocol.NotifyStreamCredit:
		return true, take(s, params, (*Set).credit, nil)
	case protocol.NotifyStreamCancel:
		return true, take(s, params, (*Set).cancel, nil)
	}
	return false, nil
}

func take[P any](s *Set, raw []byte, fn func(*Set, *P) error, bad func(*Set, []byte)) error {
	params := new(P)
	if raw == nil {
		raw = []byte("null")
	}
	if err := wire.Unmarshal(raw, params); err != nil {
		if bad != nil {
			bad(s, raw)
		}
		return err
	}
	return fn(s, params)
}

// misread ends the stream that a notification is of which does not decode: an item may be
// lost, or the end. Where it does not say which, that is every stream.
func (s *Set) misread(raw []byte) {
	var of struct {
		StreamID string `json:"streamId"`
	}
	if raw == nil || wire.Unmarshal(raw, &of) != nil {
		s.Unreadable()
		return
	}
	if in := s.findIn(of.StreamID); in != nil {
		in.fault("a notification of the stream does not decode")
	}
}

// Unreadable ends all streams that this end reads, since a message has come that cannot be
// read: it may have had items of any of them.
func (s *Set) Unreadable() {
	s.mu.Lock()
	in := slices.Collect(maps.Values(s.in))
	s.mu.Unlock()
	for _, i := range in {
		i.fault("a message cannot be read, which may have been of the stream")
	}
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
		return protocol.InvalidParams("a credit has a byte at least, not %d", p.Bytes)
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
