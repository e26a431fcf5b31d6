package atomicfile

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
)

// tempPrefix begins the names of files on their way into place.
const tempPrefix = ".wsd-"

const tempNameLen = len(tempPrefix) + 26

// IsTemporary reports whether name is that of a file on its way into place.
func IsTemporary(name string) bool {
	return len(name) == tempNameLen && strings.HasPrefix(name, tempPrefix)
}

// Stage is new content for a Target.
type Stage struct {
	target *Target
	file   *os.File
	name   string // in the target's directory; empty when it has none
	// inPlace: the directory takes no new file, so that Commit writes the old one.
	inPlace bool
	// mode is that of the file there was at first, -1 when there was none.
	mode int64
}

// Options say how content takes its place.
type Options struct {
	// Exclusive makes Commit fail with EEXIST when there is a file.
	Exclusive bool
	// Mode, if set, is the permission bits of the file from now on. Otherwise an
	// existing file's are kept and a new file has those asked of NewStage.
	Mode *uint32
	// Check, if set, is asked right before the content takes its place; its error
	// keeps that from happening.
	Check func() error
}

func (o *Options) check() error {
	if o.Check == nil {
		return nil
	}
	return o.Check()
}

// NewStage begins new content. current is what Inspect returned; a new file will
// have the permission bits of mode, less the umask.
func (t *Target) NewStage(current *Info, mode uint32) (*Stage, error) {
	s := t.newStage(current)
	err := s.here(mode)
	if err == nil {
		return s, nil
	}
	if current == nil || current.fd < 0 || !cannotReplace(err) {
		return nil, err
	}
	f, tempErr := os.CreateTemp("", tempPrefix)
	if tempErr != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	s.file, s.inPlace = f, true
	return s, nil
}

func (t *Target) newStage(current *Info) *Stage {
	if current == nil {
		return &Stage{target: t, mode: -1}
	}
	return &Stage{target: t, mode: int64(current.stat.Mode & 0o7777)}
}

// here makes the stage's file beside the target. mode is for a new file.
func (s *Stage) here(mode uint32) error {
	if s.mode >= 0 {
		mode = uint32(s.mode) &^ (unix.S_ISUID | unix.S_ISGID) // which come with the owner
	}
	fd, err := openUnnamed(s.target.dir, mode)
	if err != nil {
		if s.mode >= 0 {
			mode = 0o600 // until it has the old file's owner, nobody else is to read it
		}
		if s.name, fd, err = createNamed(s.target.dir, mode); err != nil {
			return err
		}
	}
	s.file = os.NewFile(uintptr(fd), s.name)
	return nil
}

func createNamed(dir int, mode uint32) (name string, fd int, err error) {
	for range 10 {
		name = tempPrefix + rand.Text()
		fd, err = dirfd.Open(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode)
		if !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	if err != nil {
		return "", -1, err
	}
	return name, fd, nil
}

// cannotReplace reports whether err forbids to put a new file in a directory, while
// a file in it may be writable.
func cannotReplace(err error) bool {
	for _, e := range []error{unix.EACCES, unix.EPERM, unix.EBUSY, unix.EXDEV, unix.EROFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// File is the content so far.
func (s *Stage) File() *os.File { return s.file }

// Discard drops the content and leaves nothing behind. After Commit it does nothing
// but close.
func (s *Stage) Discard() {
	if s.name != "" {
		_ = unix.Unlinkat(s.target.dir, s.name, 0)
		s.name = ""
	}
	_ = s.file.Close()
}

// Commit puts the content in place. Whatever it returns, the Stage is then to be
// discarded; when it fails, the target is as it was, except in the cases that the
// package comment names.
func (s *Stage) Commit(o Options) error {
	current, err := s.target.Inspect()
	if err != nil {
		return err
	}
	defer current.Close()
	return s.commit(current, o)
}

func (s *Stage) commit(current *Info, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	switch {
	case current == nil:
		return s.create(o)
	case o.Exclusive:
		return unix.EEXIST
	case !current.Regular():
		return unix.ENXIO
	}
	if s.inPlace {
		return s.overwrite(current, o)
	}
	if err := s.dress(current, o); err != nil {
		return s.overwriteAfter(err, current, o)
	}
	if err := s.giveName(); err != nil {
		return s.overwriteAfter(err, current, o)
	}
	err := dirfd.Rename(s.target.dir, s.name, s.target.dir, s.target.base)
	if err != nil {
		return s.overwriteAfter(err, current, o)
	}
	s.name = ""
	return nil
}

// create puts the content where nothing is.
func (s *Stage) create(o Options) error {
	if s.inPlace {
		return unix.ENOENT
	}
	mode := s.mode // of a file that has gone meanwhile
	if o.Mode != nil {
		mode = int64(*o.Mode)
	}
	if mode >= 0 {
		if err := unix.Fchmod(int(s.file.Fd()), uint32(mode)); err != nil {
			return err
		}
	}
	if s.name == "" {
		err := linkUnnamed(int(s.file.Fd()), s.target.dir, s.target.base)
		if err == nil || errors.Is(err, unix.EEXIST) && o.Exclusive || errors.Is(err, unix.ENAMETOOLONG) {
			return err
		}
		if err := s.giveName(); err != nil {
			return err
		}
	}
	rename := dirfd.Rename
	if o.Exclusive {
		rename = dirfd.RenameNew
	}
	err := rename(s.target.dir, s.name, s.target.dir, s.target.base)
	if err == nil {
		s.name = ""
	}
	return err
}

// giveName gives content without a name a temporary one.
func (s *Stage) giveName() error {
	if s.name != "" {
		return nil
	}
	name := tempPrefix + rand.Text()
	if err := linkUnnamed(int(s.file.Fd()), s.target.dir, name); err == nil {
		s.name = name
		return nil
	}
	// The system has such files but will not name them: copy.
	st, err := dirfd.Stat(int(s.file.Fd()))
	if err != nil {
		return err
	}
	name, fd, err := createNamed(s.target.dir, 0o600)
	if err != nil {
		return err
	}
	named := &Stage{target: s.target, file: os.NewFile(uintptr(fd), name), name: name}
	if err := named.copyFrom(s.file, &st); err != nil {
		named.Discard()
		return err
	}
	_ = s.file.Close()
	s.file, s.name = named.file, named.name
	return nil
}

// copyFrom makes the stage's file what from is; st is that of from.
func (s *Stage) copyFrom(from *os.File, st *unix.Stat_t) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(s.file, from); err != nil {
		return err
	}
	return dress(int(s.file.Fd()), int(from.Fd()), st, uint32(st.Mode&0o7777))
}

// dress gives the content what belongs to the file it replaces.
func (s *Stage) dress(current *Info, o Options) error {
	mode := uint32(current.stat.Mode & 0o7777)
	if o.Mode != nil {
		mode = *o.Mode
	}
	return dress(int(s.file.Fd()), current.fd, &current.stat, mode)
}

// overwriteAfter writes in place if err, met while replacing, leaves that way open.
func (s *Stage) overwriteAfter(err error, current *Info, o Options) error {
	if !cannotReplace(err) || current.fd < 0 {
		return err
	}
	return s.overwrite(current, o)
}

// overwrite writes the content into the existing file.
func (s *Stage) overwrite(current *Info, o Options) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return current.overwrite(s.file, o)
}

func (i *Info) overwrite(content io.Reader, o Options) error {
	fd := i.fd
	i.fd = -1
	f := os.NewFile(uintptr(fd), "")
	n, err := io.Copy(f, content)
	if err == nil && i.Regular() {
		err = f.Truncate(n)
	}
	if err == nil && o.Mode != nil && i.Regular() {
		err = unix.Fchmod(fd, *o.Mode)
	}
	return errors.Join(err, f.Close())
}
