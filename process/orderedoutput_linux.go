package process

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/process/eventlog"
)

// An orderedOutput is the Output of several pipes. It watches them with an epoll set, which
// lists pipes in the order in which they became ready. The pipe that became ready first is
// read first. So a write comes before all later writes to other pipes, if all pipes were empty
// when it was made. Of pipes that are not, the kernel tells which was written to first, and no
// more.
type orderedOutput struct {
	raw  syscall.RawConn // of set
	look func(fd uintptr) bool

	// Of the one reader.
	sources []*source
	open    int // sources that have not ended
	// queue holds the sources that may have something to read, in the order of reading.
	queue  []*source
	events []unix.EpollEvent

	mu       sync.Mutex
	set      *os.File // the epoll set, which Go's poller watches
	deadline time.Time
}

// noTurn is the turn of a source that nobody waits behind.
const noTurn = -1

// A source is a pipe of an orderedOutput. Its descriptor never goes to Go's poller.
type source struct {
	*fileOutput
	index  int
	queued bool
	again  bool // it was written to while it was queued
	// turn is how many bytes are read before the sources behind it in the queue are: those
	// that it held when the first of them joined the queue.
	turn    int
	watched bool // its writes are events; those of a busy one are not
	hungUp  bool // nobody can write to it any more
	ended   bool
	paced   bool // it had its delay since the last read; for one that is alone in the queue
}

// newOutputs makes one Output of pipes, which it takes over; busy is the size of a busy one.
func newOutputs(streams []string, fds []int, busy int) ([]Output, error) {
	out := &orderedOutput{open: len(fds), events: make([]unix.EpollEvent, len(fds))}
	for i, fd := range fds {
		d := &descriptor{name: streams[i], fd: fd}
		out.sources = append(out.sources, &source{fileOutput: d.output(streams[i], true, busy), index: i})
	}
	out.look = func(fd uintptr) bool {
		if out.watches() {
			out.collect(int(fd))
		}
		return len(out.queue) > 0 || out.open == 0
	}
	if err := out.watchAll(); err != nil {
		_ = out.Close()
		return nil, err
	}
	return []Output{out}, nil
}

// watchAll makes the epoll set.
func (o *orderedOutput) watchAll() (err error) {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(set, true); err != nil { // Go's poller takes no others
		_ = syscall.Close(set)
		return os.NewSyscallError("fcntl", err)
	}
	o.set = os.NewFile(uintptr(set), "outputs")
	if o.raw, err = o.set.SyscallConn(); err != nil {
		return err
	}
	for _, s := range o.sources {
		if err := o.watch(s, unix.EPOLL_CTL_ADD, true); err != nil {
			return err
		}
	}
	return nil
}

// watch has the epoll set watch a source, or not: the writes of a busy one then wake no thread.
// A source that is watched has an event at once if there is something to read, then when a write
// ends, and when one that still waits for room puts something into the empty pipe. That it hangs
// up is an event in any case.
func (o *orderedOutput) watch(s *source, op int, watched bool) (err error) {
	event := &unix.EpollEvent{Events: unix.EPOLLET, Fd: int32(s.index)}
	if watched {
		event.Events |= unix.EPOLLIN
	}
	setErr := o.raw.Control(func(set uintptr) {
		pipeErr := s.from.control(func(fd uintptr) { err = unix.EpollCtl(int(set), op, int(fd), event) })
		err = errors.Join(err, pipeErr)
	})
	s.watched = watched
	return errors.Join(err, setErr)
}

// watches reports whether there can be events that matter.
func (o *orderedOutput) watches() bool {
	return slices.ContainsFunc(o.sources, func(s *source) bool { return s.watched && !s.ended })
}

// collect queues the sources that have become ready. It does not wait.
func (o *orderedOutput) collect(set int) {
	n, err := unix.EpollWait(set, o.events, 0)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.EpollWait(set, o.events, 0)
	}
	for _, event := range o.events[:max(n, 0)] {
		s := o.sources[event.Fd]
		s.hungUp = s.hungUp || event.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0
		switch {
		case s.queued:
			s.again = true
		case !s.ended:
			o.push(s)
		}
	}
}

// push puts a source at the end of the queue. What the others hold by now is read before.
func (o *orderedOutput) push(s *source) {
	for _, other := range o.queue {
		other.turn = other.held()
	}
	s.queued, s.again, s.turn = true, false, noTurn
	o.queue = append(o.queue, s)
}

// pop removes the first source of the queue.
func (o *orderedOutput) pop() {
	o.queue[0].queued = false
	o.queue = append(o.queue[:0], o.queue[1:]...)
}

// held is how many bytes a source holds.
func (s *source) held() int {
	n, _ := s.Buffered()
	return n
}

// Read implements Output.
func (o *orderedOutput) Read() (Chunk, error) {
	for {
		if err := o.raw.Read(o.look); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return Chunk{}, os.ErrDeadlineExceeded
			}
			return Chunk{}, os.ErrClosed
		}
		if o.open == 0 {
			return Chunk{}, io.EOF
		}
		s := o.queue[0]
		if s.turn == 0 && s.watched && !s.hungUp {
			o.pop()
			// An empty pipe has an event when it is written to. One that is not has none before
			// the write ends, which may wait for room in it.
			if s.again || s.held() > 0 {
				o.push(s)
			}
			continue
		}
		if s.turn <= 0 && !s.watched {
			if len(o.queue) > 1 {
				o.rotate()
				continue
			}
			s.turn = noTurn
			if wait := s.delay(); wait > 0 && !s.paced {
				o.pause(wait)
				s.paced = true
				continue
			}
		}
		if data := o.readFrom(s); len(data) > 0 {
			return Chunk{s.stream, data}, nil
		}
	}
}

// rotate gives the turn of the first source, which is busy, to those behind it. When all sources
// in the queue are busy and had their turns, the next turns begin after a delay.
func (o *orderedOutput) rotate() {
	s := o.queue[0]
	o.queue = append(append(o.queue[:0], o.queue[1:]...), s)
	s.turn = 0
	waits := func(other *source) bool { return other.watched || other.turn > 0 }
	if slices.ContainsFunc(o.queue, waits) {
		return
	}
	full := func(busy *source) bool { return busy.held() >= busy.pace.gather }
	wait := time.Duration(0)
	for _, busy := range o.queue {
		wait = max(wait, busy.delay())
	}
	if wait > 0 && !slices.ContainsFunc(o.queue, full) {
		o.pause(wait)
	}
	if slices.ContainsFunc(o.queue, waits) { // one has become ready, and the others have turns before it
		return
	}
	o.queue = slices.DeleteFunc(o.queue, func(busy *source) bool {
		busy.turn = busy.held()
		if busy.turn == 0 {
			o.unqueue(busy)
		}
		return !busy.queued
	})
}

// unqueue takes a source that is empty for one that is not in the queue. It is watched from then
// on.
func (o *orderedOutput) unqueue(s *source) {
	s.queued = false
	if !s.watched {
		_ = o.watch(s, unix.EPOLL_CTL_MOD, true) // fails once it is closed
	}
}

// delay is how long to wait until a busy source is worth to be read.
func (s *source) delay() time.Duration {
	if !s.large.Load() {
		return 0
	}
	return s.pace.delay()
}

// pause waits, but no longer than until a source becomes ready or the deadline comes.
func (o *orderedOutput) pause(wait time.Duration) {
	until := time.Now().Add(wait)
	o.mu.Lock()
	shorter := o.deadline.IsZero() || until.Before(o.deadline)
	if shorter {
		_ = o.set.SetReadDeadline(until) // the next Read finds that it is closed
	}
	o.mu.Unlock()
	queued := len(o.queue)
	_ = o.raw.Read(func(fd uintptr) bool {
		o.collect(int(fd))
		return len(o.queue) > queued
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if shorter {
		_ = o.set.SetReadDeadline(o.deadline)
	}
}

// readFrom reads from the first source of the queue, without waiting. It returns nothing if
// the source has ended or is empty.
func (o *orderedOutput) readFrom(s *source) []byte {
	s.data, s.err, s.paced, s.limit = nil, nil, false, eventlog.ChunkBytes
	if s.turn > 0 {
		s.limit = min(s.turn, eventlog.ChunkBytes)
	}
	ready := false
	if err := s.from.control(func(fd uintptr) { ready = s.tryRead(fd) }); err != nil {
		s.err, ready = err, true
	}
	data := s.data
	s.data = nil
	switch {
	case s.err != nil:
		s.ended = true
		o.open--
		o.pop()
		return nil
	case !ready:
		o.pop()
		o.unqueue(s)
		return nil
	}
	if s.turn > 0 {
		s.turn -= len(data)
	}
	if s.pace.note(len(data), time.Now()) {
		if s.watched {
			_ = o.watch(s, unix.EPOLL_CTL_MOD, false)
		}
		if !s.enlarge() {
			s.busy = 0
		}
	}
	if s.watched && len(data) < s.limit && !s.hungUp { // it is empty
		o.pop()
	}
	return data
}

// SetDeadline implements Output.
func (o *orderedOutput) SetDeadline(t time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.set.SetReadDeadline(t) != nil {
		return os.ErrClosed
	}
	o.deadline = t
	return nil
}

// Buffered implements Output.
func (o *orderedOutput) Buffered() (n int, exact bool) {
	exact = true
	if err := o.raw.Control(func(fd uintptr) { o.collect(int(fd)) }); err != nil {
		return 0, false
	}
	for _, s := range o.queue {
		held, known := s.Buffered()
		s.turn = held
		n += held
		exact = exact && known
	}
	return n, exact
}

// Close implements Output.
func (o *orderedOutput) Close() (err error) {
	if o.set != nil {
		err = o.set.Close()
	}
	for _, s := range o.sources {
		if closeErr := s.Close(); !errors.Is(closeErr, os.ErrClosed) {
			err = errors.Join(err, closeErr)
		}
	}
	return err
}
