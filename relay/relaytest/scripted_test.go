package relaytest

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/environment"
)

// newServer returns an exec-server without real children, which would stop the time of
// a bubble. fs/* is real; a process prints lines, see counter.
func newServer() (*server.Server, error) {
	table := rpc.NewTable()
	server.Register(table)
	environment.Register(table)
	process.Register(table)
	fs.Register(table)
	env, err := environment.New(environment.Config{Cwd: "/", Capabilities: environment.Capabilities(table.Names())})
	if err != nil {
		return nil, err
	}
	return server.New(server.Config{
		Table: table, Info: env.Info,
		NewSession: func(s *server.Session) []rpc.Service {
			return []rpc.Service{process.NewService(s, process.Config{SessionID: s.ID(), Spawner: counters{}})}
		},
		NewConnection: func(n rpc.Notifier) []rpc.Service { return []rpc.Service{env, fs.NewService(n, fs.Config{})} },
	}), nil
}

// counters starts programs whose argv is NAME COUNT INTERVAL: COUNT numbered lines on
// stdout, one each INTERVAL.
type counters struct{}

func (counters) Start(cmd process.Command) (*process.Child, error) {
	total, err := strconv.Atoi(cmd.Argv[1])
	if err != nil {
		return nil, &process.SpawnError{Op: "exec", Errno: syscall.EINVAL}
	}
	every, err := time.ParseDuration(cmd.Argv[2])
	if err != nil {
		return nil, &process.SpawnError{Op: "exec", Errno: syscall.EINVAL}
	}
	c := &counter{total: total, every: every, changed: make(chan struct{}), ended: make(chan struct{})}
	c.due = time.Now().Add(every)
	return &process.Child{PID: 4242, Process: c, Outputs: []process.Output{c}}, nil
}

func (counters) Close() error { return nil }

// line is what counter number n prints.
func line(n int) string { return fmt.Sprintf("line %d\n", n) }

// A counter is a child and its stdout.
type counter struct {
	total int
	every time.Duration

	mu       sync.Mutex
	printed  int
	due      time.Time // of the next line
	deadline time.Time
	changed  chan struct{} // closed and replaced with each SetDeadline and Close
	closed   bool

	killed bool
	ended  chan struct{}
}

func (c *counter) Read() (process.Chunk, error) {
	for {
		c.mu.Lock()
		now := time.Now()
		switch {
		case c.closed:
			c.mu.Unlock()
			return process.Chunk{}, os.ErrClosed
		case c.killed || c.printed == c.total:
			c.end()
			c.mu.Unlock()
			return process.Chunk{}, io.EOF
		case !c.deadline.IsZero() && !now.Before(c.deadline):
			c.mu.Unlock()
			return process.Chunk{}, os.ErrDeadlineExceeded
		case !now.Before(c.due):
			text := line(c.printed)
			c.printed++
			c.due = now.Add(c.every) // a child that was held back goes on from here
			c.mu.Unlock()
			return process.Chunk{Stream: protocol.StreamStdout, Data: []byte(text)}, nil
		}
		next := c.due
		if !c.deadline.IsZero() && c.deadline.Before(next) {
			next = c.deadline
		}
		changed := c.changed
		c.mu.Unlock()
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-timer.C:
		case <-changed:
		}
		timer.Stop()
	}
}

// end has Wait return. c.mu is held.
func (c *counter) end() {
	select {
	case <-c.ended:
	default:
		close(c.ended)
	}
}

func (c *counter) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *counter) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	c.notify()
	return nil
}

func (c *counter) Buffered() (int, bool) { return 0, false }

// Close is Output's and Process's: both come when the child is over.
func (c *counter) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.end()
	c.notify()
	return nil
}

func (c *counter) Wait() process.WaitStatus {
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return process.WaitStatus{Signal: syscall.SIGKILL}
	}
	return process.WaitStatus{}
}

func (c *counter) Signal(syscall.Signal, bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	c.end()
	c.notify()
	return nil
}

func (c *counter) Resize(process.Size) error { return nil }
