package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/process/eventlog"
)

// fileOutput is the Output at the end of a pipe or a terminal.
type fileOutput struct {
	stream string
	from   *descriptor
	exact  bool        // what the child has written can be read at once
	busy   int         // its size when it is busy; 0 when it stays as large as it is
	large  atomic.Bool // counted in largePipes

	// Of the one reader.
	pace  pace
	try   func(fd uintptr) bool
	limit int // of the next read
	data  []byte
	err   error
}

// newFileOutput makes the Output of a file; busy is the size of a busy pipe.
func newFileOutput(stream string, file *os.File, exact bool, busy int) (*fileOutput, error) {
	from, err := newDescriptor(file)
	if err != nil {
		return nil, err
	}
	return from.output(stream, exact, busy), nil
}

// output makes the Output of a descriptor.
func (d *descriptor) output(stream string, exact bool, busy int) *fileOutput {
	o := &fileOutput{stream: stream, from: d, exact: exact, busy: busy, limit: eventlog.ChunkBytes, pace: pace{gather: busy / gatherPart}}
	o.try = o.tryRead
	return o
}

// Read implements Output.
func (o *fileOutput) Read() (Chunk, error) {
	o.data, o.err = nil, nil
	if wait := o.pace.delay(); wait > 0 && o.large.Load() {
		time.Sleep(wait) //nolint:forbidigo // no event tells that a pipe has filled; a few milliseconds
	}
	if err := o.from.read(o.try); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return Chunk{}, os.ErrDeadlineExceeded
		}
		return Chunk{}, os.ErrClosed
	}
	data := o.data
	o.data = nil
	if o.exact && o.pace.note(len(data), time.Now()) {
		o.from.leave()
		if !o.enlarge() {
			o.busy = 0
		}
	}
	return Chunk{o.stream, data}, o.err
}

// tryRead returns false when there is nothing to read yet.
func (o *fileOutput) tryRead(fd uintptr) bool {
	buf := eventlog.GetBuffer()
	n, err := syscall.Read(int(fd), buf[:o.limit])
	for err == syscall.EINTR {
		n, err = syscall.Read(int(fd), buf[:o.limit])
	}
	switch {
	case err == syscall.EAGAIN:
		eventlog.PutBuffer(buf)
		return false
	case n > eventlog.ChunkBytes*3/4: // little is lost by keeping all of it
		o.data = buf[:n]
		return true
	case n > 0:
		o.data = bytes.Clone(buf[:n])
	case err == nil, err == syscall.EIO: // the latter ends a terminal on Linux
		o.err = io.EOF
	default:
		o.err = err
	}
	eventlog.PutBuffer(buf)
	return true
}

// enlarge makes a pipe as large as a busy one should be; false when that is not
// possible.
func (o *fileOutput) enlarge() bool {
	if o.large.Load() {
		return true
	}
	if o.busy == 0 {
		return false
	}
	if largePipes.Add(1) > maxLargePipes {
		largePipes.Add(-1)
		return false
	}
	o.large.Store(true)
	done := false
	err := o.from.control(func(fd uintptr) { done = setPipeSize(fd, o.busy) })
	if err != nil || !done {
		o.uncount()
		return false
	}
	return true
}

// uncount gives up the place of a large pipe, if this has one.
func (o *fileOutput) uncount() {
	if o.large.Swap(false) {
		largePipes.Add(-1)
	}
}

// SetDeadline implements Output.
func (o *fileOutput) SetDeadline(t time.Time) error { return o.from.setDeadline(t) }

// Buffered implements Output.
func (o *fileOutput) Buffered() (int, bool) {
	var n int
	var err error
	if ctlErr := o.from.control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), getBuffered) }); ctlErr != nil || err != nil {
		return 0, false
	}
	return n, o.exact
}

// Close implements Output.
func (o *fileOutput) Close() error {
	o.uncount()
	return o.from.close()
}

// pipeInput writes to a pipe.
type pipeInput struct {
	*os.File
}

// TryWrite implements Input.
func (p *pipeInput) TryWrite(data []byte) (int, error) { return tryWrite(p.File, data) }

// EOF closes the pipe.
func (p *pipeInput) EOF() error { return p.Close() }
