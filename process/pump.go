package process

import (
	"errors"
	"os"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
)

// How long a pump listens for late output after the process itself has ended and all
// it has printed was read, when descendants keep the stream open: until there was
// none for quietTime, and no longer than drainTime. A terminal passes output on with
// a delay and cannot tell how much there is, so it is given longer.
const (
	quietTime         = 20 * time.Millisecond
	quietTimeTerminal = 100 * time.Millisecond
	drainTime         = 250 * time.Millisecond
)

// terminalBytes is more than a terminal has on its way.
const terminalBytes = 64 << 10

// A pump moves an Output of a child into its log.
type pump struct {
	out  Output
	room func() bool       // waits until more may be read; false when no more is wanted
	log  func(Chunk) error // logs a chunk
	late bool              // what descendants print after the process has ended is logged

	drained chan struct{} // closed when what the process itself printed is logged
	done    chan struct{} // closed when the Output has ended
}

func newPump(out Output, room func() bool, log func(Chunk) error, late bool) *pump {
	return &pump{out: out, room: room, log: log, late: late, drained: make(chan struct{}), done: make(chan struct{})}
}

// processEnded tells the pump that the process itself has ended: from now on it watches for
// the end of what that had printed. Called once.
func (p *pump) processEnded() {
	// An expired deadline reaches a read that waits, and the next one otherwise. It
	// cannot be set once the stream has ended, when there is nobody to tell.
	_ = p.out.SetDeadline(time.Unix(1, 0))
}

// close closes the Output and so ends run. It may be called at any time, and again. A
// terminal that is closed hangs up: it stays open until the process has ended.
func (p *pump) close() { _ = p.out.Close() } // only fails when it is closed

// run returns at the end of the Output, which the caller closes.
func (p *pump) run() {
	defer close(p.done)
	err := p.follow()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = p.drain()
	}
	close(p.drained)
	if err == nil {
		_ = p.out.SetDeadline(time.Time{})
		if p.late {
			_ = p.follow()
		} else {
			p.discard()
		}
	}
}

// discard reads to the end: a descendant that prints is not to wait, nor to die of it.
func (p *pump) discard() {
	for {
		chunk, err := p.out.Read()
		eventlog.ReleaseChunk(chunk.Data)
		if err != nil {
			return
		}
	}
}

// step logs the next chunk and says how long it was.
func (p *pump) step() (int, error) {
	if !p.room() {
		return 0, os.ErrClosed
	}
	return p.read()
}

// read is step once there is room.
func (p *pump) read() (int, error) {
	chunk, err := p.out.Read()
	if len(chunk.Data) > 0 {
		if err := p.log(chunk); err != nil {
			return 0, err
		}
	}
	return len(chunk.Data), err
}

// follow logs chunks until a read fails, and returns why.
func (p *pump) follow() error {
	for {
		if _, err := p.step(); err != nil {
			return err
		}
	}
}

// drain logs what the process itself has printed. It returns nil if the Output goes
// on after that.
func (p *pump) drain() error {
	_ = p.out.SetDeadline(time.Time{})
	left, exact := p.out.Buffered()
	if !exact {
		return p.listen(quietTimeTerminal, terminalBytes)
	}
	for left > 0 { // no read of these waits
		n, err := p.step()
		if err != nil {
			return err
		}
		left -= n
	}
	if !p.late {
		return nil
	}
	return p.listen(quietTime, 0)
}

// listen logs until the Output has been quiet for a while. held is how much of what the
// process itself printed may be on its way still: no client is too slow to be told of that
// before the exit, nor a busy machine.
func (p *pump) listen(quiet time.Duration, held int) error {
	begin, read := time.Now(), 0
	for listened := time.Duration(0); listened < drainTime && (read < held || time.Since(begin) < drainTime); {
		if !p.room() {
			return os.ErrClosed
		}
		now := time.Now()
		_ = p.out.SetDeadline(now.Add(quiet))
		n, err := p.read()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if left, _ := p.out.Buffered(); left == 0 { // else it was over before anybody looked
				return nil
			}
		case err != nil:
			return err
		}
		read += n
		listened += min(time.Since(now), quiet)
	}
	return nil
}
