package shell_test

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/shell"
)

// A fakeSpawner starts children that tests play.
type fakeSpawner struct {
	mu       sync.Mutex
	children []*fakeChild
	closed   bool
	last     process.Command
	fail     error
}

func (s *fakeSpawner) Start(cmd process.Command) (*process.Child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = cmd
	if s.fail != nil {
		return nil, s.fail
	}
	c := &fakeChild{ended: make(chan process.WaitStatus, 1), signals: make(chan syscall.Signal, 16)}
	c.out = &fakeOutput{news: make(chan struct{})}
	s.children = append(s.children, c)
	return &process.Child{PID: len(s.children), Outputs: []process.Output{c.out}, Process: c}, nil
}

func (s *fakeSpawner) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// child waits for the i-th child.
func (s *fakeSpawner) child(i int) *fakeChild {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children[i]
}

// A fakeChild ends when the test says so. Signals are noted; SIGKILL ends it, unless it is
// stuck.
type fakeChild struct {
	out     *fakeOutput
	ended   chan process.WaitStatus
	signals chan syscall.Signal
}

func (c *fakeChild) exit(code int) {
	c.out.end()
	c.ended <- process.WaitStatus{Code: code}
}

func (c *fakeChild) Wait() process.WaitStatus { return <-c.ended }

func (c *fakeChild) Signal(sig syscall.Signal, _ bool) error {
	c.signals <- sig
	if sig == syscall.SIGKILL {
		c.out.end()
		select {
		case c.ended <- process.WaitStatus{Signal: sig}:
		default:
		}
	}
	return nil
}

func (c *fakeChild) Resize(process.Size) error { return nil }
func (c *fakeChild) Close() error              { return nil }

// A fakeOutput is a pipe in memory.
type fakeOutput struct {
	mu       sync.Mutex
	data     []process.Chunk
	eof      bool
	deadline time.Time
	closed   bool
	exact    bool
	news     chan struct{} // closed and replaced at every change
}

func (o *fakeOutput) change(fn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fn()
	close(o.news)
	o.news = make(chan struct{})
}

func (o *fakeOutput) print(text string) {
	o.printTo(shell.Stdout, text)
}

func (o *fakeOutput) printTo(stream, text string) {
	o.change(func() { o.data = append(o.data, process.Chunk{Stream: stream, Data: []byte(text)}) })
}

func (o *fakeOutput) end() { o.change(func() { o.eof = true }) }

func (o *fakeOutput) Read() (process.Chunk, error) {
	for {
		o.mu.Lock()
		news := o.news
		switch {
		case o.closed:
			o.mu.Unlock()
			return process.Chunk{}, os.ErrClosed
		case !o.deadline.IsZero() && !o.deadline.After(time.Now()):
			o.mu.Unlock()
			return process.Chunk{}, os.ErrDeadlineExceeded
		case len(o.data) > 0:
			chunk := o.data[0]
			o.data = o.data[1:]
			o.mu.Unlock()
			return chunk, nil
		case o.eof:
			o.mu.Unlock()
			return process.Chunk{}, io.EOF
		}
		var expired <-chan time.Time
		if !o.deadline.IsZero() {
			expired = time.After(time.Until(o.deadline))
		}
		o.mu.Unlock()
		select {
		case <-news:
		case <-expired:
		}
	}
}

func (o *fakeOutput) SetDeadline(t time.Time) error {
	o.change(func() { o.deadline = t })
	return nil
}

// Buffered can be told of a pipe.
func (o *fakeOutput) Buffered() (int, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, chunk := range o.data {
		n += len(chunk.Data)
	}
	return n, o.exact
}

func (o *fakeOutput) Close() error {
	o.change(func() { o.closed = true })
	return nil
}
