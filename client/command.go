package client

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/lineconn"
)

// childGrace is how long a server that was started as a child may take to end once
// its stdin is closed.
const childGrace = 5 * time.Second

// childTransport is the Transport of DialCommand.
type childTransport struct {
	argv   []string
	stderr io.Writer
}

// NewCommandTransport makes the Transport that DialCommand uses. What the child
// writes to stderr goes to stderr; nil discards.
func NewCommandTransport(argv []string, stderr io.Writer) Transport {
	return &childTransport{argv: argv, stderr: stderr}
}

func (t *childTransport) Kind() string  { return "stdio" }
func (t *childTransport) Resumes() bool { return false }

func (t *childTransport) Connect(context.Context) (rpc.Connection, error) {
	if len(t.argv) == 0 {
		return nil, fmt.Errorf("start server: no command given")
	}
	// The child outlives the context of Connect: Close ends it.
	cmd := exec.Command(t.argv[0], t.argv[1:]...) //nolint:noctx // see above
	cmd.Stderr = t.stderr
	cmd.SysProcAttr = childAttributes()
	// The pipes are made here so that Wait does not close what is being read.
	childIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	stdout, childOut, err := os.Pipe()
	if err != nil {
		_ = childIn.Close()
		_ = stdin.Close()
		return nil, fmt.Errorf("start server: %w", err)
	}
	cmd.Stdin, cmd.Stdout = childIn, childOut
	err = cmd.Start()
	_ = childIn.Close()
	_ = childOut.Close()
	if err != nil {
		_ = stdin.Close()
		_ = stdout.Close()
		return nil, fmt.Errorf("start server: %w", err)
	}
	c := &child{cmd: cmd, stdin: stdin, stdout: stdout, exited: make(chan struct{})}
	go c.wait() // ends when the child does, which Close sees to
	return lineconn.New(stdout, stdin, c.close), nil
}

// child is a server that was started.
type child struct {
	cmd           *exec.Cmd
	stdin, stdout *os.File
	exited        chan struct{}
	once          sync.Once
}

func (c *child) wait() {
	_ = c.cmd.Wait() // its status says nothing that the connection's end does not
	close(c.exited)
}

// close ends the child: its stdin first, which it understands, then by force. What it
// still writes is read away, so that it does not wait for that.
func (c *child) close() error {
	c.once.Do(func() {
		_ = c.stdin.Close()
		drained := make(chan struct{})
		go func() { // ends when stdout is closed below
			defer close(drained)
			_, _ = io.Copy(io.Discard, c.stdout)
		}()
		timer := time.NewTimer(childGrace)
		defer timer.Stop()
		select {
		case <-c.exited:
		case <-timer.C:
			_ = c.cmd.Process.Kill()
			<-c.exited
		}
		_ = c.stdout.Close()
		<-drained
	})
	return nil
}
