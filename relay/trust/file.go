package trust

import (
	"fmt"
	"io"
	iofs "io/fs"
	"os"
)

// Bits of a file's mode that it must not have.
const (
	secret    iofs.FileMode = 0o077 // nobody else may read it
	untouched iofs.FileMode = 0o022 // nobody else may write it
)

// A ModeError refuses a file that others than its owner can read or write.
type ModeError struct {
	Path string
	// Mode is what the file has, Excess the part of it that is too much.
	Mode, Excess iofs.FileMode
}

func (e *ModeError) Error() string {
	if e.Excess&0o044 != 0 {
		return fmt.Sprintf("%s can be read by others than its owner (mode %04o) and holds secret keys: chmod 600 %s", e.Path, e.Mode, e.Path)
	}
	return fmt.Sprintf("%s can be written by others than its owner (mode %04o) and says whom to trust: chmod go-w %s", e.Path, e.Mode, e.Path)
}

// read returns what path holds, and what it is.
func read(path string, limit int64, excess iofs.FileMode) ([]byte, iofs.FileInfo, error) {
	// A pipe would make the open wait for ever.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return readFrom(f, limit, excess)
}

// readFrom is read for a file that is open, from its beginning.
func readFrom(f *os.File, limit int64, excess iofs.FileMode) ([]byte, iofs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if mode := info.Mode().Perm(); mode&excess != 0 {
		return nil, nil, &ModeError{Path: f.Name(), Mode: mode, Excess: mode & excess}
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, limit+1))
	switch {
	case err != nil:
		return nil, nil, err
	case int64(len(data)) > limit:
		return nil, nil, fmt.Errorf("%s is longer than %d bytes", f.Name(), limit)
	}
	return data, info, nil
}
