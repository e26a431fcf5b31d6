package shell

import (
	"errors"
	"os"
	"time"

	"github.com/wsd-dev/wsd/process"
)

// quietTime is how long an output that cannot tell what it holds is listened to after the
// command has ended.
const quietTime = 20 * time.Millisecond

// A pump moves an Output of a command into its run.
type pump struct {
	run     *run
	out     process.Output
	drained chan struct{} // closed when what the command itself has printed was read
	done    chan struct{} // closed when nobody can print any more
}

func newPump(r *run, out process.Output) *pump {
	return &pump{run: r, out: out, drained: make(chan struct{}), done: make(chan struct{})}
}

// ended tells the pump that the command has ended: what it has printed is in the pipe.
// Called once.
func (p *pump) ended() {
	// An expired deadline reaches a read that waits, and the next one otherwise.
	_ = p.out.SetDeadline(time.Unix(1, 0)) // fails once the output has ended
}

// work returns when nobody can print any more. What comes after the command has ended and
// its own output was read leads nowhere, but is read: who prints it is not to wait, nor to
// die of it.
func (p *pump) work() {
	defer close(p.done)
	err := p.follow()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = p.drain()
	}
	close(p.drained)
	if err == nil {
		_ = p.out.SetDeadline(time.Time{})
		for err == nil {
			_, err = p.out.Read()
		}
	}
	if err := p.out.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		p.run.logger().Debug("output did not close cleanly", "err", err)
	}
}

// step reads once, when the follower has room for it.
func (p *pump) step() error {
	if !p.run.wait() {
		return os.ErrClosed
	}
	chunk, err := p.out.Read()
	if len(chunk.Data) > 0 {
		p.run.add(Event{Name: chunk.Stream, Data: chunk.Data})
	}
	return err
}

// follow reads until a read fails, and returns why.
func (p *pump) follow() error {
	for {
		if err := p.step(); err != nil {
			return err
		}
	}
}

// drain reads until the Output is found empty. It returns nil if somebody else has it open
// still, or may have.
func (p *pump) drain() error {
	_ = p.out.SetDeadline(time.Time{})
	for {
		left, exact := p.out.Buffered()
		if exact && left == 0 {
			return nil
		}
		if !exact {
			_ = p.out.SetDeadline(time.Now().Add(quietTime))
		}
		if err := p.step(); errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
