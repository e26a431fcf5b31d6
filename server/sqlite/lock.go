package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrInUse says that another process has the database open. Errors are *InUseError.
var ErrInUse = errors.New("in use by another process")

// InUseError says who has a database open.
type InUseError struct {
	Path string
	PID  int // 0 when it is not known
}

// Error says what to do as well.
func (e *InUseError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = "pid " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("%s is in use by %s (EBUSY): talk to that process, or stop it first", e.Path, who)
}

// Unwrap is ErrInUse.
func (e *InUseError) Unwrap() error { return ErrInUse }

// A lock keeps other processes from a database. Processes that share one have a lock each.
type lock struct {
	file  *os.File
	place int
}

// maxSharers is how many processes may share a database.
const maxSharers = 64

// lockPath is the file of the lock for a place beside the database at path.
func lockPath(path string, place int) string {
	if place == 0 {
		return path + ".lock"
	}
	return path + ".lock" + strconv.Itoa(place)
}

// lockGrace is how long a lock is waited for whose owner is dead: a child that it was just
// starting holds it for a moment longer.
const lockGrace = 2 * time.Second

// takeSharedLock takes the first lock beside the database at path that is free.
func takeSharedLock(ctx context.Context, path string) (*lock, error) {
	for place := 0; ; place++ {
		l, err := takeLock(ctx, path, place)
		if !errors.Is(err, ErrInUse) || place+1 == maxSharers {
			return l, err
		}
	}
}

// holdIfFree holds the lock for a place unless somebody has it, so that nobody takes it
// until release is called.
func holdIfFree(path string, place int) (free bool, release func(), err error) {
	file, err := openLock(lockPath(path, place))
	if err != nil {
		return false, nil, err
	}
	if free, err = tryLock(file); err != nil {
		err = fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return free, func() { file.Close() }, err
}

// takeLock takes the lock for a place beside the database at path.
func takeLock(ctx context.Context, path string, place int) (*lock, error) {
	file, err := openLock(lockPath(path, place))
	if err != nil {
		return nil, err
	}
	for waited := time.Duration(0); ; {
		taken, err := tryLock(file)
		if taken {
			break
		}
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		pid := ownerOf(file)
		if waited >= lockGrace || alive(pid) {
			file.Close()
			return nil, &InUseError{Path: path, PID: pid}
		}
		const pause = 20 * time.Millisecond
		select {
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		case <-time.After(pause):
			waited += pause
		}
	}
	l := &lock{file, place}
	// Without room for it nobody is told who has the lock.
	if err := l.write(strconv.Itoa(os.Getpid()) + "\n"); err != nil && !errors.Is(err, syscall.ENOSPC) {
		l.release()
		return nil, fmt.Errorf("write %s: %w", file.Name(), err)
	}
	return l, nil
}

// write replaces what the file says.
func (l *lock) write(text string) error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(text), 0)
	return err
}

// release gives the lock up. The file stays: if it were removed, two processes could hold
// locks on two files of its name.
func (l *lock) release() {
	_ = l.write("") // it says nothing of a lock that nobody has
	l.file.Close()
}

// ownerOf is the process that has the lock, 0 when the file does not say.
func ownerOf(file *os.File) int {
	b := make([]byte, 32)
	n, _ := file.ReadAt(b, 0) // what it could read
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
