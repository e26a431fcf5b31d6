package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// A lineFile is a log that lines are appended to. It is opened anew when its path stands
// for another file, as after a rotation. A line that could not be written whole is ended
// before the next one.
type lineFile struct {
	path string

	mu   sync.Mutex
	file *os.File
	torn bool // the file does not end with a whole line
}

// openLines opens the log at path, and makes it if need be.
func openLines(path string) (*lineFile, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	l := &lineFile{path: path}
	return l, l.open()
}

// openAudit opens the audit log that a flag names: - is standard error. Without one it is
// nil.
func openAudit(a *app, path string) (io.Writer, func(), error) {
	switch path {
	case "":
		return nil, func() {}, nil
	case "-":
		return a.stderr, func() {}, nil
	}
	l, err := openLines(path)
	if err != nil {
		return nil, nil, withHint(fmt.Errorf("--audit-log: %w", err), "write --audit-log PATH, a file in a directory that is there")
	}
	return l, func() { _ = l.Close() }, nil
}

// open is called with mu held, or before others have l.
func (l *lineFile) open() error {
	// A pipe that nobody reads is an error, and is not waited for.
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	if l.file != nil {
		l.file.Close() // nothing is buffered
	}
	l.file, l.torn = file, endsTorn(file)
	return nil
}

// endsTorn reports whether a file ends within a line, as far as it can be read.
func endsTorn(written *os.File) bool {
	info, err := written.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	file, err := os.Open(written.Name())
	if err != nil {
		return false
	}
	defer file.Close()
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Write appends a line, with its end.
func (l *lineFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.followPath(); err != nil {
		return 0, fmt.Errorf("open it anew: %w", err)
	}
	if l.torn {
		if _, err := l.file.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		l.torn = false
	}
	n, err := l.file.Write(line)
	if n > 0 {
		l.torn = line[n-1] != '\n'
	}
	return n, err
}

// followPath opens the file anew that is at the path now.
func (l *lineFile) followPath() error {
	is, err := l.file.Stat()
	if err != nil {
		return err
	}
	if at, err := os.Stat(l.path); err == nil && os.SameFile(is, at) {
		return nil
	}
	return l.open()
}

// Close closes the file.
func (l *lineFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
