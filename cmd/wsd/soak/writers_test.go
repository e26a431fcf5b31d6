//go:build e2e && linux

package soak

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A ledger has every value that was written: which paths, by whom.
type ledger struct {
	mu      sync.Mutex
	written map[string]string // how it was written, by value
	seen    map[string]bool   // values that a writer has read and overwritten or thrown away
	count   int
	voided  int // values for which there was no room
}

func newLedger() *ledger { return &ledger{written: map[string]string{}, seen: map[string]bool{}} }

// mint makes the content of a file, with a value of its own in the first line.
func (l *ledger) mint(side, how string, random *rand.Rand) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	value := fmt.Sprintf("%s-%06d", side, l.count)
	l.written[value] = how
	size := random.IntN(3000)
	if random.IntN(200) == 0 {
		size = 600_000 // of two windows
	}
	return []byte(value + "\n" + strings.Repeat(".", size))
}

// void takes a content back that could not be written.
func (l *ledger) void(text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.voided++
	delete(l.written, valueOf(text))
}

// saw notes that a writer has read a content, and that it may go.
func (l *ledger) saw(text []byte) {
	if v := valueOf(text); v != "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen[v] = true
	}
}

// valueOf is the value that a content begins with, "" for one that is not whole.
func valueOf(text []byte) string {
	line, _, ok := strings.Cut(string(text), "\n")
	if !ok || len(line) > 40 {
		return ""
	}
	return line
}

// A writer changes one side.
type writer struct {
	side   string
	dir    string
	trash  string // what it takes away goes here, on the same file system
	spare  string // and new content is made here
	ledger *ledger
	random *rand.Rand
	n      int
}

// The names are few, so that all meet each other. One is not UTF-8.
func (w *writer) file() string {
	return filepath.Join(w.folder(), []string{"f0", "f1", "f2", "f3", "f4", "f\xe9"}[w.random.IntN(6)])
}

func (w *writer) folder() string {
	switch n := w.random.IntN(8); {
	case n < 2:
		return w.dir
	case n < 6:
		return filepath.Join(w.dir, fmt.Sprintf("d%d", n-2))
	default:
		return filepath.Join(w.dir, fmt.Sprintf("d%d", n-6), "e")
	}
}

func (w *writer) next(dir string) string {
	w.n++
	return filepath.Join(dir, fmt.Sprintf("%s-%d-%d", w.side, w.random.Uint32(), w.n))
}

// run works until the channel is closed.
func (w *writer) run(stop <-chan struct{}) error {
	for {
		burst := 1
		if w.random.IntN(10) == 0 {
			burst = 30
		}
		for range burst {
			if err := w.one(); err != nil && !harmless(err) {
				return err
			}
		}
		select {
		case <-stop:
			return nil
		case <-time.After(time.Duration(w.random.IntN(30)) * time.Millisecond):
		}
	}
}

// harmless reports whether an error only says that somebody else was quicker, or that the
// disk is full.
func harmless(err error) bool {
	return errors.Is(err, iofs.ErrNotExist) || errors.Is(err, iofs.ErrExist) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ENOSPC)
}

func (w *writer) one() error {
	switch n := w.random.IntN(24); {
	case n < 7:
		return w.replace(w.file())
	case n < 12:
		return w.inPlace(w.file())
	case n < 14:
		return os.Rename(w.file(), w.next(w.trash))
	case n < 16:
		return unix.Renameat2(unix.AT_FDCWD, w.file(), unix.AT_FDCWD, w.file(), unix.RENAME_NOREPLACE)
	case n < 17:
		return unix.Renameat2(unix.AT_FDCWD, w.file(), unix.AT_FDCWD, w.file(), unix.RENAME_EXCHANGE)
	case n < 18:
		return os.Chmod(w.file(), []os.FileMode{0o600, 0o644, 0o755}[w.random.IntN(3)])
	case n < 19:
		dir := w.folder()
		if dir == w.dir {
			return nil
		}
		return os.Rename(dir, w.next(w.trash))
	case n < 22:
		return w.awayAndBack(w.file())
	case n < 23:
		if dir := w.folder(); dir != w.dir {
			return w.awayAndBack(dir)
		}
		return nil
	default:
		from, to := w.folder(), w.folder()
		if from == w.dir || to == w.dir {
			return nil
		}
		return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	}
}

// replace puts a new file into the place of another, which comes out and is read.
func (w *writer) replace(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	made := w.next(w.spare)
	text := w.ledger.mint(w.side, "replaced "+w.name(path), w.random)
	if err := os.WriteFile(made, text, 0o644); err != nil {
		w.ledger.void(text)
		return errors.Join(err, os.Remove(made))
	}
	for {
		err := unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
		if err == nil {
			return nil
		}
		if errors.Is(err, iofs.ErrExist) {
			err = unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
			if err == nil {
				return os.Rename(made, w.next(w.trash)) // it is read in the end
			}
		}
		if errors.Is(err, iofs.ErrNotExist) {
			if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
				continue
			}
		}
		return errors.Join(err, os.Rename(made, w.next(w.trash))) // it never was anywhere
	}
}

// awayAndBack takes something away for a moment.
func (w *writer) awayAndBack(path string) error {
	away := w.next(w.spare)
	if err := os.Rename(path, away); err != nil {
		return err
	}
	<-time.After(time.Duration(w.random.IntN(20)) * time.Millisecond)
	if err := unix.Renameat2(unix.AT_FDCWD, away, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE); err != nil {
		return errors.Join(err, os.Rename(away, w.next(w.trash)))
	}
	return nil
}

// inPlace overwrites what it has read. No other writer does so to the same file meanwhile: it
// would overwrite what it has not read.
func (w *writer) inPlace(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil { // until it is closed
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Nlink == 0 {
		return nil // it was swept meanwhile
	}
	old := make([]byte, 100)
	n, err := f.ReadAt(old, 0)
	if n == 0 && err != nil {
		return nil
	}
	w.ledger.saw(old[:n])
	text := w.ledger.mint(w.side, fmt.Sprintf("written over %s, inode %d, which had %q", w.name(path), st.Ino, valueOf(old[:n])), w.random)
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err != nil {
		w.ledger.void(text)
	}
	return err
}

func (w *writer) name(path string) string { return w.side + ":" + strings.TrimPrefix(path, w.dir+"/") }
