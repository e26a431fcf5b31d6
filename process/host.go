package process

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/wsd-dev/wsd/protocol"
)

// HostSpawner starts children of this program: fork and exec, with nothing in
// between. Each leads a session and a process group of its own, has no other
// descriptors than its three and the Command's files, and no signal blocked or
// ignored. One with pipes gets SIGTERM should this program die, one with a terminal
// the terminal's SIGHUP. The zero value is ready.
type HostSpawner struct {
	mu     sync.Mutex
	forker *forker // from the first Start to Close
}

// Start implements Spawner.
func (h *HostSpawner) Start(cmd Command) (*Child, error) {
	f, err := h.join()
	if err != nil {
		return nil, err
	}
	if cmd.Terminal != nil {
		return startTerminal(f, cmd)
	}
	return startPipes(f, cmd)
}

func (h *HostSpawner) join() (*forker, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.forker == nil {
		h.forker = joinForker()
	}
	return h.forker, nil
}

// Close implements Spawner. The HostSpawner can be used again.
func (h *HostSpawner) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.forker != nil {
		h.forker = nil
		leaveForker()
	}
	return nil
}

// stdio holds the descriptors of a child while it is started.
type stdio struct {
	theirs  []int      // the child's ends, to be closed here
	ours    []*os.File // this program's ends, to be closed if the start fails
	outputs []int      // those that it reads, which are no files yet
}

func (s *stdio) closeTheirs() {
	for _, fd := range s.theirs {
		_ = syscall.Close(fd) // the child has its own copy, if any
	}
	s.theirs = nil
}

func (s *stdio) closeAll() {
	s.closeTheirs()
	for _, f := range s.ours {
		_ = f.Close()
	}
	for _, fd := range s.outputs {
		_ = syscall.Close(fd)
	}
}

// input adds a pipe that the child reads.
func (s *stdio) input(name string) (ours *os.File, theirs int, err error) {
	fd, theirs, err := openPipe(false)
	if err != nil {
		return nil, 0, spawnStep("open pipe", err)
	}
	ours = os.NewFile(uintptr(fd), name)
	s.ours, s.theirs = append(s.ours, ours), append(s.theirs, theirs)
	return ours, theirs, nil
}

// output adds a pipe that the child writes.
func (s *stdio) output() (theirs int, err error) {
	ours, theirs, err := openPipe(true)
	if err != nil {
		return 0, spawnStep("open pipe", err)
	}
	s.outputs, s.theirs = append(s.outputs, ours), append(s.theirs, theirs)
	return theirs, nil
}

func startPipes(f *forker, cmd Command) (_ *Child, err error) {
	var io stdio
	defer func() {
		if err != nil {
			io.closeAll()
		}
	}()
	childOut, err := io.output()
	if err != nil {
		return nil, err
	}
	childErr, err := io.output()
	if err != nil {
		return nil, err
	}
	child := &Child{}
	var childIn int
	if cmd.PipeStdin {
		var stdin *os.File
		if stdin, childIn, err = io.input("stdin"); err != nil {
			return nil, err
		}
		child.Input = &pipeInput{stdin}
	} else {
		if childIn, err = syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
			return nil, spawnStep("open "+os.DevNull, err)
		}
		io.theirs = append(io.theirs, childIn)
	}
	started, err := f.fork(cmd, []int{childIn, childOut, childErr}, false)
	if err != nil {
		return nil, err
	}
	io.closeTheirs()
	child.PID, child.Process = started.pid, started
	pipes := io.outputs
	io.outputs = nil
	child.Outputs, err = newOutputs([]string{protocol.StreamStdout, protocol.StreamStderr}, pipes, cmp.Or(cmd.BusyPipe, busyPipeBytes))
	if err != nil {
		return nil, abandon(started, err)
	}
	return child, nil
}

// splitPipe makes the end of a pipe that is this program's not block.
func splitPipe(fds [2]int, childWrites bool) (ours, theirs int, err error) {
	ours, theirs = fds[0], fds[1]
	if !childWrites {
		ours, theirs = theirs, ours
	}
	if err := syscall.SetNonblock(ours, true); err != nil {
		_ = syscall.Close(ours)
		_ = syscall.Close(theirs)
		return 0, 0, err
	}
	return ours, theirs, nil
}

// sealListed has exec close the descriptors that the directory lists, but for stdin,
// stdout and stderr.
func sealListed(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= firstInherited {
			syscall.CloseOnExec(fd)
		}
	}
}

// firstInherited is the first descriptor after stdin, stdout and stderr.
const firstInherited = 3

// abandon ends a child that cannot be used after all.
func abandon(p *hostProcess, err error) error {
	_ = p.Signal(syscall.SIGKILL, true)
	p.Wait()
	_ = p.Close()
	return spawnStep("watch output", err)
}

// spawnStep is a *SpawnError for a step before the fork.
func spawnStep(op string, err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		errno = syscall.EIO
	}
	return &SpawnError{Op: op, Errno: errno}
}
