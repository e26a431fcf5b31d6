package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/protocol"
)

const (
	// A watch sends a sign of life each heartbeat, from the connection on until its answer.
	heartbeat = time.Second
	// idleTimeout is how long a command and a watch wait for the other one to read or to write.
	idleTimeout = 10 * time.Second
	// graceTimeout is how long a command then looks for what has come while it was stopped itself.
	graceTimeout = 100 * time.Millisecond
	// lookTimeout is how long a request waits for the look that is under way.
	lookTimeout = 30 * time.Second
	// acceptPause is between two tries to accept a connection, such as while there are too many open files.
	acceptPause = 100 * time.Millisecond
	// maxDoorRequest and maxDoorAnswer bound a request and an answer, in bytes.
	maxDoorRequest = 1 << 20
	maxDoorAnswer  = 16 << 20
	// maxSocketPath is the length in bytes that the path of a socket may have on every system.
	maxSocketPath = 100
)

// The values of doorRequest.Do.
const (
	doorCollect   = "collect"
	doorLost      = "lost"
	doorRestore   = "restore"
	doorConflicts = "conflicts"
	doorResolve   = "resolve"
)

// A doorRequest is what a command asks of the 'wsd sync --watch' that has a state open. Paths have their
// bytes, which need not be UTF-8.
type doorRequest struct {
	Do      string `json:"do"`
	Now     bool   `json:"now,omitempty"`     // collect garbage of any age
	Version int64  `json:"version,omitempty"` // to restore
	Of      string `json:"of,omitempty"`      // the path of that, in the tree
	To      []byte `json:"to,omitempty"`      // the absolute path to write it to, nil for its own
	Path    []byte `json:"path,omitempty"`    // to resolve, in LOCAL; to list, absolute, with all below it
	After   int64  `json:"after,omitempty"`   // list versions with greater numbers
	Parts   bool   `json:"parts,omitempty"`   // list them with the parts of their content
	Policy  string `json:"policy,omitempty"`
	JSON    bool   `json:"json,omitempty"`
	// About is which two sides the command is about, and Flags are its flags that say what is synchronised, as
	// a shell has them.
	About *syncAbout `json:"about,omitempty"`
	Flags []string   `json:"flags,omitempty"`
}

// A doorAnswer is what came of a doorRequest.
type doorAnswer struct {
	Busy      bool                   `json:"busy,omitempty"` // nothing was done
	Collected protocol.CollectResult `json:"collected"`
	Versions  []doorVersion          `json:"versions,omitempty"`
	More      bool                   `json:"more,omitempty"`   // there are later versions
	Stdout    []byte                 `json:"stdout,omitempty"` // for the command to print
	Stderr    []byte                 `json:"stderr,omitempty"`
	// Code is the exit status, and Error and Hint are its reason.
	Code  int    `json:"code,omitempty"`
	Error []byte `json:"error,omitempty"`
	Hint  []byte `json:"hint,omitempty"`
}

// err is the error of an answer, for report.
func (a *doorAnswer) err() error {
	var err error
	if len(a.Error) > 0 {
		err = errors.New(string(a.Error))
		if len(a.Hint) > 0 {
			err = withHint(err, string(a.Hint))
		}
	}
	if a.Code == exitOK {
		return nil
	}
	return &exitError{a.Code, err}
}

// fail has an answer report an error as the command itself would.
func (a *doorAnswer) fail(err error) {
	if err == nil {
		return
	}
	a.Code = exitFailure
	if hinted, ok := errors.AsType[*hintedError](err); ok {
		a.Hint = []byte(hinted.hint)
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		a.Code, a.Hint = exitUsage, []byte(usage.hint)
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		if a.Code = exit.code; exit.err == nil {
			return
		}
	}
	a.Error = []byte(err.Error())
}

// A syncDoor lets other commands use a state that this process has open: a socket that belongs to this user
// alone. Requests are served concurrently.
type syncDoor struct {
	listener net.Listener
	dir      *os.File
	serve    func(context.Context, *doorRequest) *doorAnswer
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// doorPath is the socket of the process that has a state open.
func doorPath(store string) (string, error) {
	dir, err := userRuntimeDir()
	if err != nil {
		return "", err
	}
	if store, err = filepath.EvalSymlinks(store); err == nil {
		store, err = filepath.Abs(store)
	}
	sum := sha256.Sum256([]byte(store))
	return filepath.Join(string(dir), "watch-"+hex.EncodeToString(sum[:8])), err
}

// socketName is a name for a socket, also where its path is too long for one. It is of use until dir is
// closed.
func socketName(path string) (name string, dir *os.File, err error) {
	if dir, err = os.Open(filepath.Dir(path)); err != nil {
		return "", nil, err
	}
	if len(path) > maxSocketPath && runtime.GOOS == "linux" {
		path = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	}
	return path, dir, nil
}

// openDoor opens the door of a state whose lock this process has. serve must be safe for concurrent use, and
// end soon after its context.
func openDoor(store string, serve func(context.Context, *doorRequest) *doorAnswer) (_ *syncDoor, err error) {
	path, err := doorPath(store)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, iofs.ErrNotExist) { // a killed process left it
		return nil, err
	}
	name, dir, err := socketName(path)
	if err != nil {
		return nil, err
	}
	const mode = 0o600 // only this user may connect
	ctx, stop := context.WithCancel(context.Background())
	d := &syncDoor{dir: dir, serve: serve, stop: stop}
	listen := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), mode) }) // from the beginning, where the system knows that
	}}
	if d.listener, err = listen.Listen(ctx, "unix", name); err == nil {
		if err = os.Chmod(path, mode); err != nil {
			err = errors.Join(err, d.listener.Close())
		}
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, dir.Close())
	}
	d.done.Go(func() { d.accept(ctx) })
	return d, nil
}

// accept serves connections until Close.
func (d *syncDoor) accept(ctx context.Context) {
	for {
		conn, err := d.listener.Accept()
		switch {
		case err == nil:
			d.done.Go(func() { d.take(ctx, conn) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
				return
			}
		}
	}
}

// take serves one request. A command sends its request after the first sign of life, so that a watch that was
// stopped finds no request of a command that has given up. take ends early if the command has gone.
func (d *syncDoor) take(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
	_ = conn.SetDeadline(time.Now().Add(idleTimeout))
	var q doorRequest
	if _, err := conn.Write([]byte("\n")); err != nil {
		return
	}
	if json.NewDecoder(io.LimitReader(conn, maxDoorRequest)).Decode(&q) != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	go func() { // ends with the connection: a command sends nothing behind its request but the end of its line
		_, _ = io.Copy(io.Discard, conn)
		cancel()
	}()
	answered := make(chan []byte, 1)
	go func() { answered <- d.serve(ctx, &q).line() }() // is waited for below
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			_ = conn.SetWriteDeadline(time.Now().Add(idleTimeout))
			if _, err := conn.Write([]byte("\n")); err != nil {
				cancel()
				<-answered
				return
			}
		case line := <-answered:
			_ = conn.SetWriteDeadline(time.Now().Add(idleTimeout))
			_, _ = conn.Write(line) // the command may have gone
			return
		}
	}
}

// line is the answer as it is sent.
func (a *doorAnswer) line() []byte {
	text, err := json.Marshal(a)
	if err == nil && len(text) > maxDoorAnswer {
		err = fmt.Errorf("there is more to say than %d bytes", maxDoorAnswer)
	}
	if err != nil {
		failed := &doorAnswer{}
		failed.fail(err)
		text, _ = json.Marshal(failed) // texts and numbers
	}
	return append(text, '\n')
}

// Close removes the socket, and waits for a request under way, which it ends.
func (d *syncDoor) Close() error {
	d.stop()
	err := d.listener.Close()
	d.done.Wait()
	return errors.Join(err, d.dir.Close())
}

// Errors of askDoor after which nothing was done, nor is it later.
var (
	errNoWatch  = errors.New("no watch has it open")
	errNoAnswer = errors.New("the watch does not answer")
	errBusy     = errors.New("the watch is busy")
)

// dialDoor connects to the watch that has a state open.
func dialDoor(ctx context.Context, store string) (net.Conn, error) {
	path, err := doorPath(store)
	if err != nil {
		return nil, err
	}
	name, dir, err := socketName(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return new(net.Dialer).DialContext(ctx, "unix", name)
}

// askDoor sends a request to the watch that has a state open, and returns the answer. After an error other
// than errNoWatch, errNoAnswer and errBusy it is not known whether the request was served.
func askDoor(ctx context.Context, store string, q *doorRequest) (*doorAnswer, error) {
	conn, err := dialDoor(ctx, store)
	if err != nil {
		return nil, errNoWatch
	}
	return askOver(ctx, conn, q)
}

// askOver is askDoor over a connection, which it closes.
func askOver(ctx context.Context, conn net.Conn, q *doorRequest) (*doorAnswer, error) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	idle := &idleTimeoutConn{Conn: conn}
	_, err = idle.Read(make([]byte, 1))
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errNoAnswer
	case err != nil: // it has just ended
		return nil, errNoWatch
	}
	_ = conn.SetWriteDeadline(time.Now().Add(idleTimeout))
	a := &doorAnswer{}
	if _, err = conn.Write(append(text, '\n')); err == nil {
		err = json.NewDecoder(io.LimitReader(idle, maxDoorAnswer+maxDoorRequest)).Decode(a)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("the 'wsd sync --watch' that was asked has ended, or does not answer any more: it is not known whether that was done: %w", err)
	case a.Busy:
		return nil, errBusy
	}
	return a, nil
}

// An idleTimeoutConn fails a Read that gets nothing for idleTimeout.
type idleTimeoutConn struct{ net.Conn }

// Read implements io.Reader. A process that was stopped for longer finds what has come meanwhile.
func (c *idleTimeoutConn) Read(b []byte) (n int, err error) {
	for _, wait := range []time.Duration{idleTimeout, graceTimeout} {
		if err = c.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return 0, err
		}
		if n, err = c.Conn.Read(b); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	return n, err
}
