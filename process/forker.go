package process

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// forker forks on threads of its own: Linux sends a child its parent-death signal
// when the thread that forked it ends, and threads of the Go runtime may end at any
// time. These end with the last HostSpawner that has forked. They are few, because a
// fork keeps a thread waiting, but a processor busy.
type forker struct {
	work  chan func()
	stop  chan struct{}
	enter func() error // prepares a thread; nil for nothing
	wg    sync.WaitGroup

	mu      sync.Mutex
	threads int
}

func newForker() *forker { return &forker{work: make(chan func()), stop: make(chan struct{})} }

// maxForkThreads is how many forks run at a time.
const maxForkThreads = 4

// forkers is the forker of this program, and how many HostSpawners use it.
var forkers struct {
	mu    sync.Mutex
	users int
	*forker
}

func joinForker() *forker {
	forkers.mu.Lock()
	defer forkers.mu.Unlock()
	if forkers.users == 0 {
		forkers.forker = newForker()
		unignore()
		sealInherited()
	}
	forkers.users++
	return forkers.forker
}

func leaveForker() {
	forkers.mu.Lock()
	forkers.users--
	last := forkers.users == 0
	f := forkers.forker
	forkers.mu.Unlock()
	if last {
		close(f.stop)
		f.wg.Wait()
	}
}

// unignore has children start with the default action of signals that this program
// was started to ignore, as background jobs of a shell are: a signal with a handler,
// even one that does nothing, is reset by exec.
func unignore() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // still of no effect here
		}
	}
	unignoreOthers()
}

// do runs fn on one of the threads and returns when it has.
func (f *forker) do(fn func()) {
	done := make(chan struct{})
	job := func() { defer close(done); fn() }
	select {
	case f.work <- job:
	default:
		f.grow()
		f.work <- job
	}
	<-done
}

func (f *forker) grow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.threads >= min(maxForkThreads, runtime.GOMAXPROCS(0)) {
		return
	}
	f.threads++
	f.wg.Go(f.thread) // waited for by leaveForker
}

func (f *forker) thread() {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	if f.enter != nil && f.enter() != nil {
		return // the first thread, which came this far, does the work
	}
	f.serve()
}

// serve works until stop is closed.
func (f *forker) serve() {
	unblockSignals()
	for {
		select {
		case job := <-f.work:
			job()
		case <-f.stop:
			return
		}
	}
}

// maxBusyPause is the longest pause before a program that is being written is tried
// again. A file that was just written and closed is busy for as long as a child of
// another fork, which has not come to its exec yet, holds a copy of the descriptor.
const maxBusyPause = 32 * time.Millisecond

// fork starts cmd with stdin, stdout and stderr as given.
func (f *forker) fork(cmd Command, stdio []int, tty bool) (*hostProcess, error) {
	attr := &syscall.ProcAttr{Dir: cmd.Dir, Env: cmd.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, fd := range stdio {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	for _, file := range cmd.Files {
		attr.Files = append(attr.Files, file.Fd())
	}
	if tty {
		attr.Sys.Setctty = true // Ctty 0 is the child's stdin
	}
	if cmd.Attr != nil {
		cmd.Attr(attr.Sys)
	}
	if cmd.Namespace != nil {
		f = cmd.Namespace.forker
	}
	var p *hostProcess
	var err error
	for pause := time.Millisecond; ; pause *= 2 {
		f.do(func() { p, err = forkExec(cmd, attr, tty) })
		if !errors.Is(err, syscall.ETXTBSY) || pause > maxBusyPause {
			break
		}
		time.Sleep(pause) //nolint:forbidigo // no event tells that others have come to their exec
	}
	runtime.KeepAlive(cmd.Files)
	if err != nil {
		errno, ok := errors.AsType[syscall.Errno](err)
		if !ok {
			errno = syscall.EINVAL // a NUL byte, which callers have checked for
		}
		return nil, &SpawnError{Op: opExec, Errno: errno}
	}
	return p, nil
}
