package trust

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/relay/seal"
)

// ErrUnauthorized is the error of a key that is not in the file of authorized keys.
var ErrUnauthorized = errors.New("key not authorized")

// Authorized is a file of authorized keys. It is read again when it has changed.
type Authorized struct {
	path string

	mu   sync.Mutex
	keys map[seal.Fingerprint]bool
	info iofs.FileInfo // of the file that keys are from
	read time.Time     // when that was
}

// LoadAuthorized reads the file at path, which must be there and make sense. One that
// has no keys admits nobody.
func LoadAuthorized(path string) (*Authorized, error) {
	a := &Authorized{path: path}
	if _, err := a.current(); err != nil {
		return nil, err
	}
	return a, nil
}

// Check returns nil if key is in the file now, an error that is ErrUnauthorized if
// not. A file that is gone or makes no sense any more admits nobody.
func (a *Authorized) Check(key *seal.PublicKey) error {
	keys, err := a.current()
	if err != nil {
		return err
	}
	if print := key.Fingerprint(); !keys[print] {
		return fmt.Errorf("%w: %s is not in %s", ErrUnauthorized, print, a.path)
	}
	return nil
}

// current returns the keys in the file. The map is not changed any more.
func (a *Authorized) current() (map[seal.Fingerprint]bool, error) {
	info, err := os.Stat(a.path)
	if err != nil {
		return nil, fmt.Errorf("authorized keys: %w", err)
	}
	a.mu.Lock()
	fresh := a.info != nil && unchanged(a.info, info, a.read)
	keys := a.keys
	a.mu.Unlock()
	if fresh {
		return keys, nil
	}

	now := time.Now()
	data, info, err := read(a.path, MaxFileBytes, untouched)
	if err == nil {
		keys, err = parseAuthorized(a.path, data)
	}
	if err != nil {
		return nil, fmt.Errorf("authorized keys: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys, a.info, a.read = keys, info, now
	return keys, nil
}

// settled is how old a file's time must be before two versions cannot have the same.
const settled = 2 * time.Second

// unchanged reports whether the file, now as info says, is surely what was read at
// that time, when it was as before says.
func unchanged(before, info iofs.FileInfo, read time.Time) bool {
	return os.SameFile(before, info) && before.Size() == info.Size() && before.Mode() == info.Mode() &&
		before.ModTime().Equal(info.ModTime()) && read.Sub(info.ModTime()) > settled
}
