package capnweb

import (
	"context"

	"github.com/wsd-dev/wsd/protocol/bufpool"
	"github.com/wsd-dev/wsd/protocol/handoff"
)

// An outbox holds the frames that wait to be written. Its fields are under the lock of
// its session.
type outbox struct {
	queue   handoff.Queue[message]
	bytes   int           // of queue, and of what is being written
	writing int           // of what is being written
	ended   bool          // nothing gets in any more
	wake    chan struct{} // holds a token when there is something to do
	room    chan struct{} // closed when there is room again; nil if nobody waits
}

// A message is a frame that waits, and the memory from which it is, if that can be used
// again when it has been written.
type message struct{ text, buf []byte }

func (m message) free() { bufpool.Keep(m.buf) }

func (s *Session) add(frame []byte) { s.addMessage(message{text: frame}) }

func (s *Session) addMessage(m message) {
	if s.out.ended {
		return
	}
	s.out.queue.Push(m)
	s.out.bytes += len(m.text)
	s.out.signal()
}

// nextMessage takes the next message to write. The one before has been written.
func (s *Session) nextMessage() (message, bool) {
	s.out.bytes -= s.out.writing
	m, ok := s.out.queue.Pop()
	s.out.writing = len(m.text)
	if !s.full() {
		s.out.free()
	}
	return m, ok
}

// signal has the session's write look for what there is to do.
func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// takeHeld takes all messages, which are counted until the session ends.
func (s *Session) takeHeld() (messages []message) {
	for m, ok := s.out.queue.Pop(); ok; m, ok = s.out.queue.Pop() {
		messages = append(messages, m)
	}
	s.out.writing = s.out.bytes
	return messages
}

func (o *outbox) free() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// full reports whether what can wait has to.
func (s *Session) full() bool { return s.out.bytes >= s.max.queuedBytes && !s.out.ended }

// waitRoom waits until there is room in the queue. It returns the cause when ctx ends.
func (s *Session) waitRoom(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.lock()
		if !s.full() {
			s.unlock()
			return nil
		}
		if s.out.room == nil {
			s.out.room = make(chan struct{})
		}
		room := s.out.room
		s.unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// send queues a frame. What comes of reading and cannot wait ends the session when there
// is too much of it.
func (s *Session) send(frame []byte) {
	s.add(frame)
	if s.out.bytes > s.max.queuedBytes+s.max.replies {
		s.end(protocolErrorf("RangeError", "the peer does not read"), nil)
	}
}

// frame makes a message of the text, the first time without copying it.
func (enc *encoded) frame(head, tail string) []byte {
	if enc.full == nil || len(head) > headRoom {
		return frame(head, enc.text, tail)
	}
	at := headRoom - len(head)
	copy(enc.full[at:], head)
	f := append(enc.full[at:], tail...)
	enc.full = nil
	return f
}

// frame joins parts to a message.
func frame(head string, body []byte, tail string) []byte {
	f := make([]byte, 0, len(head)+len(body)+len(tail))
	return append(append(append(f, head...), body...), tail...)
}
