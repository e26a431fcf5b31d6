package capnweb

import "context"

// A Writer writes to a WritableStream of the peer's. One goroutine at a time uses it.
type Writer struct {
	out     *outflow
	stub    *Stub
	kept    bool
	claimed bool // was decoded to a place, by one goroutine
}

// newWriter makes a Writer of a stub, which it takes over. It is called under the lock.
func newWriter(b *Stub) *Writer {
	return &Writer{out: newOutflow(b.s, b.ref.(*promise), 0), stub: b}
}

// Write sends one chunk, when those before it leave room in the window.
func (w *Writer) Write(ctx context.Context, v any) error { return w.out.write(ctx, v) }

// Close ends the stream and waits until all of it has been taken.
func (w *Writer) Close(ctx context.Context) error {
	done := make(chan error, 1)
	s := w.out.s
	s.lock()
	w.out.close(func(err error) { done <- err })
	s.unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Abort ends the stream with an error, which its reader gets.
func (w *Writer) Abort(reason error) {
	s := w.out.s
	s.lock()
	w.out.abort(reason)
	s.unlock()
}

// Keep makes a Writer among the arguments of a Method outlive it.
func (w *Writer) Keep() *Writer {
	w.kept = true
	return w
}

// letGo gives up a Writer that nobody took. It is called under the lock.
func (w *Writer) letGo(*Session) {
	if w.kept || w.out.closed || w.out.failed != nil { // which release it when they are answered
		return
	}
	w.out.stop(ErrReleased)
}

// A Sink is a WritableStream of this end's, to be sent to a peer once. What the peer
// writes comes out of the Stream that was made with it.
type Sink struct{ p *pipe }

// NewSink returns a Sink and where it leads.
func NewSink[T any]() (*Sink, Stream[T]) {
	p := newPipe(nil)
	return &Sink{p}, newStream[T](p, 0)
}

// attach makes the Sink one of a session.
func (k *Sink) attach(s *Session) (*pipe, error) {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	if k.p.s != nil {
		return nil, ErrReleased
	}
	k.p.s = s
	return k.p, nil
}
