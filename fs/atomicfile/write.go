package atomicfile

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// Write makes data the whole content of the target. current is what Inspect
// returned; a file that is new has the permission bits of mode, less the umask.
func (t *Target) Write(current *Info, data []byte, mode uint32, o Options) error {
	if current != nil && current.Device() {
		return current.writeInPlace(data, o)
	}
	s := t.newStage(current)
	if err := s.here(mode); err != nil {
		if current != nil && current.fd >= 0 && current.Regular() && cannotReplace(err) {
			return current.writeInPlace(data, o)
		}
		return err
	}
	defer s.Discard()
	if _, err := s.file.Write(data); err != nil {
		return err
	}
	return s.commit(current, o)
}

func (i *Info) writeInPlace(data []byte, o Options) error {
	if o.Exclusive {
		return unix.EEXIST
	}
	if err := o.check(); err != nil {
		return err
	}
	return i.overwrite(bytes.NewReader(data), o)
}
