package client

import (
	"context"
	"errors"
	"io"
	"slices"
)

// chunkOverhead is what a chunk counts beyond its bytes.
const chunkOverhead = 64

// Stream is one output of a Process. It is an io.ReadCloser and an io.WriterTo. It
// belongs to one goroutine.
type Stream struct {
	process *Process
	// guarded by process.mu
	chunks    []event // not yet read
	discarded bool
}

// Read returns what has been printed, waiting for at least one byte. It returns
// io.EOF once nobody has the output open any more, and what Process.Err returns after
// the process was lost, in both cases after everything that arrived before.
func (s *Stream) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	p := s.process
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := s.await(context.Background()); err != nil {
		return 0, err
	}
	head := &s.chunks[0]
	n := copy(b, head.data)
	if n == len(head.data) {
		s.pop()
		return n, nil
	}
	head.data = head.data[n:]
	p.consumed(n)
	return n, nil
}

// WriteTo implements io.WriterTo.
func (s *Stream) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		data, err := s.next()
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		n, err := w.Write(data)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
}

func (s *Stream) next() ([]byte, error) {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	if err := s.await(context.Background()); err != nil {
		return nil, err
	}
	return s.pop().data, nil
}

// Close discards what has not been read and what is still to come. Other calls fail
// with io.ErrClosedPipe after it.
func (s *Stream) Close() error {
	p := s.process
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.discarded {
		return nil
	}
	s.discarded = true
	for len(s.chunks) > 0 {
		s.pop()
	}
	p.wake()
	return nil
}

// push appends output. The process's mutex is held, as in the functions below.
func (s *Stream) push(e event) {
	if s.discarded || len(e.data) == 0 {
		return
	}
	s.chunks = append(s.chunks, e)
	s.process.queued += len(e.data) + chunkOverhead
	s.process.wake()
}

func (s *Stream) pop() event {
	e := s.chunks[0]
	s.chunks[0] = event{}
	if s.chunks = s.chunks[1:]; len(s.chunks) == 0 {
		s.chunks = nil
	}
	s.process.consumed(len(e.data) + chunkOverhead)
	return e
}

// await returns nil once there is something to read.
func (s *Stream) await(ctx context.Context) error {
	return s.process.await(ctx, func() (bool, error) {
		if s.discarded {
			return false, io.ErrClosedPipe
		}
		return len(s.chunks) > 0, nil
	})
}

// await waits until ready says so, or there is nothing more to wait for. It releases
// the mutex meanwhile.
func (p *Process) await(ctx context.Context, ready func() (bool, error)) error {
	for {
		ok, err := ready()
		switch {
		case ok || err != nil:
			return err
		case p.phase == ended && p.err != nil:
			return p.err
		case p.phase == ended || p.tailCut && !p.overrun:
			return io.EOF
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		p.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// consumed is told of bytes that have left a stream. When there is room again, the
// connection goes on, and output that was left at the server is fetched.
func (p *Process) consumed(n int) {
	p.queued -= n
	limit := p.client.opts.OutputBuffer
	if p.queued < limit {
		p.makeRoom()
	}
	if p.overrun && p.queued <= limit/2 {
		p.overrun = false
		if l := p.client.link(); l != nil {
			p.client.spawn(func() { p.recover(l, nil) })
		}
	}
}

// Output is a piece of what a process printed, as the server read it.
type Output struct {
	Seq    uint64
	Stream string // protocol.StreamStdout, StreamStderr or StreamPTY
	Data   []byte
}

// Next returns the next piece of output of both streams together, in order. It
// returns io.EOF after the last. It is for callers that do not use Stdout and Stderr.
func (p *Process) Next(ctx context.Context) (Output, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	streams := []*Stream{p.Stdout, p.Stderr}
	err := p.await(ctx, func() (bool, error) {
		return slices.ContainsFunc(streams, func(s *Stream) bool { return len(s.chunks) > 0 }), nil
	})
	if err != nil {
		return Output{}, err
	}
	from := streams[0]
	if len(from.chunks) == 0 || len(streams[1].chunks) > 0 && streams[1].chunks[0].seq < from.chunks[0].seq {
		from = streams[1]
	}
	e := from.pop()
	return Output{Seq: e.seq, Stream: e.stream, Data: e.data}, nil
}
