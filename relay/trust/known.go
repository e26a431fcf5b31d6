package trust

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wsd-dev/wsd/relay/seal"
)

// DefaultDir is where the files of a person are unless told otherwise: wsd in their
// directory of configurations.
func DefaultDir() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "wsd"), nil
}

// DefaultKnown is the file of known executors of a person.
func DefaultKnown() (string, error) {
	dir, err := DefaultDir()
	return filepath.Join(dir, "known_executors"), err
}

// A KeyChangedError says that an executor has another key than the one that is known.
type KeyChangedError struct {
	// Name is the executor's, as in the file.
	Name string
	// Before is the key that is known, Now the other.
	Before, Now seal.Fingerprint
	// Path and Line are where Before is written down; "" when it is not in a file.
	Path string
	Line int
}

func (e *KeyChangedError) Error() string {
	text := fmt.Sprintf("the key of executor %s has changed: it was %s and is now %s. "+
		"Either its identity was made anew (it runs without --identity, or the file was lost), or somebody answers in its place. "+
		"Have `wsd fingerprint` run there and compare. ", e.Name, e.Before, e.Now)
	if e.Path == "" {
		return text + "If the new key is right, put it into the URL instead of the old one"
	}
	return text + fmt.Sprintf("If the new key is right, delete line %d of %s and connect again", e.Line, e.Path)
}

// A WeakerProfileError says that a connection would have a weaker profile than the executor
// is known to have.
type WeakerProfileError struct {
	// Name is the executor's, as in the file.
	Name string
	// Path and Line are where the profile is written down.
	Path string
	Line int
}

func (e *WeakerProfileError) Error() string {
	return fmt.Sprintf("executor %s is known to have the profile %s, and the relay does not say so any more. "+
		"Either that machine, or the relay, is another version now, or somebody in between has taken the profile away. "+
		"To accept the weaker codex profile, take the word %s out of line %d of %s and connect again", e.Name, profileReliable, profileReliable, e.Line, e.Path)
}

// Known is a file of known executors. It need not exist, which is as if it were empty.
type Known struct{ path string }

// NewKnown is the file at path. It is not touched before it is asked.
func NewKnown(path string) *Known { return &Known{path} }

// Path is the file's.
func (k *Known) Path() string { return k.path }

// Check reports whether the executor called name is known to have a key with that
// fingerprint. If only others are known of it, that is a *KeyChangedError; if none
// are, it is false. Several lines for one name are several good keys.
func (k *Known) Check(name string, print seal.Fingerprint) (bool, error) {
	data, _, err := read(k.path, MaxFileBytes, untouched)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		data = nil
	case err != nil:
		return false, fmt.Errorf("known executors: %w", err)
	}
	return k.check(data, name, print)
}

func (k *Known) check(data []byte, name string, print seal.Fingerprint) (bool, error) {
	name, err := cleanName(name)
	if err != nil {
		return false, err
	}
	keys, err := parseKnown(k.path, data)
	if err != nil {
		return false, fmt.Errorf("known executors: %w", err)
	}
	var other *KnownKey
	for i, key := range keys {
		switch {
		case key.Name != name:
		case key.Fingerprint == print:
			return true, nil
		case other == nil:
			other = &keys[i]
		}
	}
	if other != nil {
		return false, &KeyChangedError{Name: name, Before: other.Fingerprint, Now: print, Path: k.path, Line: other.Line}
	}
	return false, nil
}

// CheckProfile returns a *WeakerProfileError if the executor called name is known to have
// the reliable profile with that key, and reliable is false.
func (k *Known) CheckProfile(name string, print seal.Fingerprint, reliable bool) error {
	if reliable {
		return nil
	}
	line, err := k.reliable(name, print)
	if err != nil || line == 0 {
		return err
	}
	return &WeakerProfileError{Name: name, Path: k.path, Line: line}
}

// reliable returns the line that says that the executor has the reliable profile, or 0.
func (k *Known) reliable(name string, print seal.Fingerprint) (int, error) {
	data, _, err := read(k.path, MaxFileBytes, untouched)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("known executors: %w", err)
	}
	if name, err = cleanName(name); err != nil {
		return 0, err
	}
	keys, err := parseKnown(k.path, data)
	if err != nil {
		return 0, fmt.Errorf("known executors: %w", err)
	}
	for _, key := range keys {
		if key.Name == name && key.Fingerprint == print && key.Profile == profileReliable {
			return key.Line, nil
		}
	}
	return 0, nil
}

// PinReliable is Pin for an executor that has the reliable profile, which is remembered too,
// also if the key is known. It adds no key to one that is known: that is a
// *KeyChangedError.
func (k *Known) PinReliable(name string, print seal.Fingerprint) error {
	if line, err := k.reliable(name, print); err != nil || line > 0 {
		return err
	}
	if err := k.rewrite(name, print); err != nil {
		return fmt.Errorf("add to known executors: %w", err)
	}
	return nil
}

// rewrite adds the profile to the line of a key, or a line if there is none, with other
// processes kept out. The file is replaced as a whole.
func (k *Known) rewrite(name string, print seal.Fingerprint) error {
	name, err := cleanName(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return err
	}
	f, err := k.open()
	if err != nil {
		return err
	}
	defer f.Close() // and with it the lock
	data, info, err := readFrom(f, MaxFileBytes, untouched)
	if err != nil {
		return err
	}
	keys, err := parseKnown(k.path, data)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if key.Name != name || key.Fingerprint != print {
			continue
		}
		lines := strings.SplitAfter(string(data), "\n")
		line := &lines[key.Line-1]
		*line = strings.Replace(*line, print.String(), print.String()+" "+profileReliable, 1)
		return k.replace(strings.Join(lines, ""), info.Mode().Perm())
	}
	if _, err := k.check(data, name, print); err != nil {
		return err
	}
	return k.write(f, data, info, name, print, " "+profileReliable)
}

// replace puts text in the place of the file.
func (k *Known) replace(text string, mode iofs.FileMode) error {
	if len(text) > MaxFileBytes {
		return k.full()
	}
	path, err := filepath.EvalSymlinks(k.path)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), ".known-*")
	if err != nil {
		return err
	}
	_, err = next.WriteString(text)
	err = errors.Join(err, next.Chmod(mode), next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}

// Pin is Check, and makes a key known whose executor is not: it adds a line to the
// file, which it makes if need be. It reports whether it did. Of several processes
// that pin at once, the first decides.
func (k *Known) Pin(name string, print seal.Fingerprint) (added bool, err error) {
	return k.pin(name, print, "")
}

func (k *Known) pin(name string, print seal.Fingerprint, more string) (added bool, err error) {
	if known, err := k.Check(name, print); known || err != nil {
		return false, err
	}
	if added, err = k.add(name, print, more); err != nil {
		if _, changed := errors.AsType[*KeyChangedError](err); !changed {
			err = fmt.Errorf("add to known executors: %w", err)
		}
	}
	return added, err
}

// add looks again, with other processes kept out, and appends a line.
func (k *Known) add(name string, print seal.Fingerprint, more string) (bool, error) {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return false, err
	}
	f, err := k.open()
	if err != nil {
		return false, err
	}
	defer f.Close() // and with it the lock
	data, info, err := readFrom(f, MaxFileBytes, untouched)
	if err != nil {
		return false, err
	}
	if known, err := k.check(data, name, print); known || err != nil {
		return false, err
	}
	if err := k.write(f, data, info, name, print, more); err != nil {
		return false, err
	}
	return true, nil
}

// write appends a line to f, which holds data.
func (k *Known) write(f *os.File, data []byte, info iofs.FileInfo, name string, print seal.Fingerprint, more string) error {
	name, err := cleanName(name)
	if err != nil {
		return err
	}
	line := name + " " + print.String() + more + "\n"
	if len(data) > 0 && data[len(data)-1] != '\n' {
		line = "\n" + line
	}
	if len(data)+len(line) > MaxFileBytes {
		return k.full()
	}
	if _, err := f.WriteString(line); err != nil {
		// A part of a line would make the file unusable.
		return errors.Join(err, f.Truncate(info.Size()))
	}
	return f.Sync()
}

func (k *Known) full() error {
	return fmt.Errorf("%s is full: it may have %d bytes", k.path, MaxFileBytes)
}

// open opens the file, for this process alone until it is closed.
func (k *Known) open() (*os.File, error) {
	for {
		f, err := os.OpenFile(k.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			_ = f.Close()
			return nil, err
		}
		// The file may have been replaced before it was locked, as editors do.
		locked, err1 := f.Stat()
		now, err2 := os.Stat(k.path)
		if err1 == nil && err2 == nil && os.SameFile(locked, now) {
			return f, nil
		}
		_ = f.Close()
		if err := errors.Join(err1, err2); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return nil, err
		}
	}
}
