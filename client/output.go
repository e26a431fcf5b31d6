package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

const (
	// maxRunOutput bounds each output that Run keeps.
	maxRunOutput = 64 << 20
	// tailWait is how long EndOutput waits for output after the exit, while a descendant of
	// the command has it open. The original server may send output of the command
	// itself after the exit; wsd does not.
	tailWait         = 250 * time.Millisecond
	originalTailWait = 2 * time.Second
)

// Result is what Run returns.
type Result struct {
	ExitStatus
	Stdout, Stderr []byte // on a PTY all is in Stdout
	// Truncated is true when an output was longer than 64 MiB; its beginning is kept.
	Truncated bool
}

// Run runs a command to its end. stdin, if not nil, is what it reads. When ctx ends
// first, the command is terminated. A command that fails is not an error.
func (c *Client) Run(ctx context.Context, cmd Command, stdin io.Reader) (*Result, error) {
	cmd.Stdin = stdin != nil
	p, err := c.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		p.client.spawn(func() { _ = p.Terminate(p.client.life) })
	})
	defer stop()
	var work sync.WaitGroup
	if stdin != nil {
		// Nobody waits for this goroutine, since a reader that blocks cannot be stopped.
		// It ends at the reader's next return.
		go func() {
			_, _ = p.Stdin.ReadFrom(stdin)
			_ = p.Stdin.Close()
		}()
	}
	outputs := [2]*head{{}, {}}
	for i, s := range []*Stream{p.Stdout, p.Stderr} {
		work.Go(func() { _, _ = s.WriteTo(outputs[i]) }) // its error is the process's
	}
	status, err := p.Wait(ctx)
	if err == nil {
		p.EndOutput(ctx)
		work.Wait()
		err = p.Err()
	}
	_ = p.Stdout.Close()
	_ = p.Stderr.Close()
	work.Wait()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", p.id, err)
	}
	return &Result{
		ExitStatus: status, Stdout: outputs[0].Bytes(), Stderr: outputs[1].Bytes(),
		Truncated: outputs[0].truncated || outputs[1].truncated,
	}, nil
}

// EndOutput is for callers who do not wait for descendants that outlive the process
// and have its output open. Called after Wait, it returns when nothing of the process
// itself can be missing, or when ctx ends; from then on Stdout, Stderr and Next end
// once what has arrived has been read.
func (p *Process) EndOutput(ctx context.Context) {
	timer := time.NewTimer(p.tailWait())
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tailCut = true
	p.wake()
}

func (p *Process) tailWait() time.Duration {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	if p.client.session.info.Capabilities[protocol.CapProcessAttach] {
		return tailWait
	}
	return originalTailWait
}

// head keeps the beginning of what is written to it.
type head struct {
	bytes.Buffer
	truncated bool
}

func (h *head) Write(b []byte) (int, error) {
	keep := min(len(b), maxRunOutput-h.Len())
	h.truncated = h.truncated || keep < len(b)
	_, _ = h.Buffer.Write(b[:keep]) // never fails
	return len(b), nil
}
