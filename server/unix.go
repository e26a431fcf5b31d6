package server

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// socketMode lets the owner in and nobody else.
const socketMode = 0o600

// unixListener is a listener whose socket file goes with it.
type unixListener struct {
	net.Listener
	path string
	file iofs.FileInfo
	once sync.Once
}

// listenUnix listens at path. A socket file that nobody answers at is replaced;
// anything else there is an error.
func listenUnix(path string) (net.Listener, error) {
	unlock := lockDirectory(filepath.Dir(path))
	defer unlock() // of two servers that find a stale file one must not remove the other's
	if err := removeStale(path); err != nil {
		return nil, err
	}
	cfg := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { restrictSocket(int(fd)) })
	}}
	ln, err := cfg.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on unix socket: %w", err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // Close does it, with more care
	err = os.Chmod(path, socketMode)
	var file iofs.FileInfo
	if err == nil {
		file, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare unix socket: %w", err), ln.Close())
	}
	return &unixListener{Listener: ln, path: path, file: file}, nil
}

// removeStale removes a socket file that no server listens on any more.
func removeStale(path string) error {
	file, err := os.Lstat(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at unix socket: %w", err)
	}
	if file.Mode().Type() != iofs.ModeSocket {
		return fmt.Errorf("cannot listen on %s: it exists and is no socket", path)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).Dial("unix", path)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot listen on %s: another server does", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale unix socket: %w", err)
	}
	return nil
}

// Close stops listening and removes the socket file, unless it is another's by now.
func (l *unixListener) Close() error {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
			_ = os.Remove(l.path) // what is left of it is found stale
		}
	})
	return l.Listener.Close()
}

// lockDirectory holds off other servers that start at the same time. It is best effort:
// where it cannot be had, for instance because the directory may not be read, starting
// goes on without.
func lockDirectory(dir string) (unlock func()) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	deadline := time.NewTimer(2 * time.Second)
	defer deadline.Stop()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		select {
		case <-retry.C:
			continue
		case <-deadline.C:
		}
		break
	}
	return func() { f.Close() }
}
