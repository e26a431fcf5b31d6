package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
)

// fakeSpawner starts children that do what a test says, in fake time too.
type fakeSpawner struct {
	exact bool          // outputs tell what is buffered, as pipes do
	slow  chan struct{} // if set, Start waits for it
	fail  error

	mu       sync.Mutex
	children []*fakeChild
	closed   int
}

func (s *fakeSpawner) Start(cmd Command) (*Child, error) {
	if s.slow != nil {
		<-s.slow
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	c := &fakeChild{cmd: cmd, exit: make(chan WaitStatus, 1), signals: make(chan fakeSignal, 16), obey: true}
	s.children = append(s.children, c)
	child := &Child{PID: 1000 + len(s.children), Process: c}
	streams := []string{protocol.StreamStdout, protocol.StreamStderr}
	if cmd.Terminal != nil {
		streams = []string{protocol.StreamPTY}
	}
	for _, stream := range streams {
		out := newFakeOutput(stream, s.exact)
		c.outputs = append(c.outputs, out)
		child.Outputs = append(child.Outputs, out)
	}
	if cmd.Terminal != nil || cmd.PipeStdin {
		c.input = newSlowInput()
		child.Input = c.input
	}
	return child, nil
}

func (s *fakeSpawner) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// child is the n-th that was started.
func (s *fakeSpawner) child(t *testing.T, n int) *fakeChild {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.children) <= n {
		t.Fatalf("%d children were started", len(s.children))
	}
	return s.children[n]
}

func (s *fakeSpawner) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.children)
}

type fakeSignal struct {
	sig   syscall.Signal
	group bool
}

// fakeChild is the Process of a fake child, and the test's handle of it.
type fakeChild struct {
	cmd     Command
	outputs []*fakeOutput
	input   *slowInput
	exit    chan WaitStatus
	signals chan fakeSignal

	mu      sync.Mutex
	obey    bool // SIGKILL ends it
	holds   bool // a descendant outside of the group holds the streams
	ended   bool
	closed  bool
	resized []Size
}

// end has the child exit. Its streams end too, unless a descendant holds them.
func (c *fakeChild) end(status WaitStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if !c.holds {
		for _, out := range c.outputs {
			out.finish()
		}
	}
	c.exit <- status
}

func (c *fakeChild) Wait() WaitStatus { return <-c.exit }

func (c *fakeChild) Signal(sig syscall.Signal, group bool) error {
	c.mu.Lock()
	closed, obey := c.closed, c.obey
	c.mu.Unlock()
	if closed {
		return os.ErrProcessDone
	}
	c.signals <- fakeSignal{sig, group}
	if sig == syscall.SIGKILL && obey {
		c.end(WaitStatus{Signal: sig})
	}
	return nil
}

func (c *fakeChild) Resize(size Size) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return os.ErrProcessDone
	}
	c.resized = append(c.resized, size)
	return nil
}

func (c *fakeChild) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

// fakeOutput is a stream that a test prints to. What it holds is one read.
type fakeOutput struct {
	stream string
	exact  bool

	mu       sync.Mutex
	buffered [][]byte
	finished bool
	closed   bool
	deadline time.Time
	stops    []time.Duration // how long the machine stops after each of the next deadlines is set
	changed  chan struct{}
}

func newFakeOutput(stream string, exact bool) *fakeOutput {
	return &fakeOutput{stream: stream, exact: exact, changed: make(chan struct{})}
}

func (o *fakeOutput) update(fn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fn()
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *fakeOutput) print(text string) {
	o.update(func() { o.buffered = append(o.buffered, []byte(text)) })
}
func (o *fakeOutput) finish()      { o.update(func() { o.finished = true }) }
func (o *fakeOutput) Close() error { o.update(func() { o.closed = true }); return nil }
func (o *fakeOutput) SetDeadline(t time.Time) error {
	stop := time.Duration(0)
	o.update(func() {
		if o.deadline = t; len(o.stops) > 0 {
			stop, o.stops = o.stops[0], o.stops[1:]
		}
	})
	if stop > 0 {
		<-time.After(stop)
	}
	return nil
}

// left is how many reads were not made.
func (o *fakeOutput) left() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buffered)
}

func (o *fakeOutput) Buffered() (int, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, data := range o.buffered {
		n += len(data)
	}
	return n, o.exact
}

func (o *fakeOutput) Read() (Chunk, error) {
	for {
		o.mu.Lock()
		changed := o.changed
		var over <-chan time.Time
		var timer *time.Timer
		switch {
		case o.closed:
			o.mu.Unlock()
			return Chunk{}, os.ErrClosed
		case !o.deadline.IsZero() && !time.Now().Before(o.deadline):
			o.mu.Unlock()
			return Chunk{}, os.ErrDeadlineExceeded
		case len(o.buffered) > 0:
			data := o.buffered[0]
			o.buffered = o.buffered[1:]
			o.mu.Unlock()
			return Chunk{o.stream, data}, nil
		case o.finished:
			o.mu.Unlock()
			return Chunk{}, io.EOF
		case !o.deadline.IsZero():
			timer = time.NewTimer(time.Until(o.deadline))
			over = timer.C
		}
		o.mu.Unlock()
		select {
		case <-changed:
		case <-over:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// brokenLog is a Log that fails after some events.
type brokenLog struct {
	*eventlog.Log
	good int
}

var errDiskFull = errors.New("no space left")

func (l *brokenLog) Append(e eventlog.Event) (uint64, error) {
	if l.good == 0 {
		return 0, errDiskFull
	}
	l.good--
	return l.Log.Append(e)
}
