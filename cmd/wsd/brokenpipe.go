package main

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// catchBrokenPipes makes a write to a closed stdout or stderr an error instead of the
// end of this program. The signal is caught and not ignored, since a child inherits a
// signal that is ignored.
func catchBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// outliveReaders keeps a program that runs for long alive when nobody reads its output
// any more: what it prints then is dropped.
func (a *app) outliveReaders() {
	catchBrokenPipes()
	a.stdout, a.stderr = dropUnread(a.stdout), dropUnread(a.stderr)
}

// dropUnread returns a writer to w that drops what nobody can read. A terminal is
// returned as it is, since callers look at the file.
func dropUnread(w io.Writer) io.Writer {
	if isTerminal(w) {
		return w
	}
	return unreadDropper{w}
}

type unreadDropper struct{ w io.Writer }

func (d unreadDropper) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	return n, err
}
