//go:build e2e && linux

package soak

import (
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cools is for how long a directory lies in the trash before it is swept: wsd may still have
// it open.
const cools = 10 * time.Second

// sweep reads what the writers of a side have taken away, and removes it, until the channel is
// closed. Without it the disks would have to be large.
func (w *writer) sweep(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		case <-time.After(time.Second):
		}
		list, err := os.ReadDir(w.trash)
		if err != nil {
			return err
		}
		for _, e := range list {
			path := filepath.Join(w.trash, e.Name())
			if e.IsDir() {
				err = w.sweepDir(path)
			} else {
				err = w.sweepFile(path)
			}
			if err != nil && !harmless(err) {
				return err
			}
		}
	}
}

// sweepFile has nobody write to the file between the reading and the removal.
func (w *writer) sweepFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	text := make([]byte, 100)
	n, err := f.ReadAt(text, 0)
	if n > 0 || err == nil {
		w.ledger.saw(text[:n])
	}
	return os.Remove(path)
}

// sweepDir takes the files out of a directory, and removes it once it is empty.
func (w *writer) sweepDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || time.Since(time.Unix(st.Ctim.Unix())) < cools {
		return nil
	}
	var dirs []string
	err = filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, path)
			return nil
		case strings.HasPrefix(d.Name(), ".wsd-tmp-"):
			return nil // wsd is writing it
		}
		return os.Rename(path, w.next(w.trash))
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		err = os.Remove(dirs[i])
	}
	return err
}
