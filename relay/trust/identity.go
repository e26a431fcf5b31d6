package trust

import (
	"crypto/rand"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"

	"github.com/wsd-dev/wsd/relay/seal"
)

// LoadIdentity reads the identity in the file at path. It refuses one that others can
// read, with a *ModeError; a missing one is fs.ErrNotExist.
func LoadIdentity(path string) (*seal.Identity, error) {
	data, _, err := read(path, MaxIdentityBytes, secret)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	id, err := seal.ParseIdentity(data)
	if err != nil {
		return nil, fmt.Errorf("identity %s: %w", path, err)
	}
	return id, nil
}

// Identity reads the identity in the file at path; if there is no file, it makes one
// and a fresh identity in it, and the directories on the way. Of several processes
// that do so at once, one makes the identity and all have it.
func Identity(path string) (*seal.Identity, error) {
	id, err := LoadIdentity(path)
	if !errors.Is(err, iofs.ErrNotExist) {
		return id, err
	}
	if id, err = seal.NewIdentity(); err != nil {
		return nil, err
	}
	switch err := createIdentity(path, id); {
	case err == nil:
		return id, nil
	case errors.Is(err, iofs.ErrExist):
		return LoadIdentity(path) // another process was faster
	default:
		return nil, fmt.Errorf("create identity: %w", err)
	}
}

// createIdentity writes id beside path and links it into place, which fails if
// something is there. Nobody ever sees a part of it.
func createIdentity(path string, id *seal.Identity) error {
	data, err := id.MarshalSecret()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(dir, ".identity-"+rand.Text())
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(name)
	_, err = f.Write(data)
	// An identity that others have pinned must not be gone after a crash.
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(name, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the name last. Not every file system has a way to.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	_ = d.Sync() // where it fails there is nothing better
	return nil
}
