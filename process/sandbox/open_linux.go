package sandbox

import (
	"os"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol"
)

// Open opens a regular file for reading in this process where a helper confined to s
// would open the same one, to save the helper: s lets everything be read but what is
// private. The rights are those of a helper, without capabilities, and what is decided
// is decided about the open file, so that it does not matter what becomes of the path.
// It is not ok when a helper must find out what may be done.
func (e *Enforcer) Open(s *protocol.Sandbox, path string) (fd int, ok bool) {
	p, err := e.resolve(s, fileContext())
	if err != nil || p.Unconfined || !p.asksFullRead() {
		return -1, false
	}
	private, _, err := e.private.resolve(p.Private)
	if err != nil {
		return -1, false
	}
	err = withoutCapabilities(func() error {
		fd, err = openPermitted(path, private)
		return err
	})
	return fd, err == nil
}

// openPermitted opens the regular file at path unless it is of the kernel's or is or
// lies below one of the private paths.
func openPermitted(path string, private []string) (int, error) {
	// A magic link of /proc leads to what this process has open.
	at, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return -1, err
	}
	defer unix.Close(at) //nolint:errcheck // a path descriptor
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, err
	}
	if err := unix.Fstatfs(at, &fs); err != nil {
		return -1, err
	}
	name := "/proc/self/fd/" + strconv.Itoa(at)
	real, err := os.Readlink(name)
	switch {
	case err != nil:
		return -1, err
	case st.Mode&unix.S_IFMT != unix.S_IFREG, fs.Type == unix.PROC_SUPER_MAGIC, slashpath.Within(real, "/dev"):
		return -1, unix.EACCES
	case slices.ContainsFunc(private, func(p string) bool { return slashpath.Within(real, p) }):
		return -1, unix.EACCES
	}
	return unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

// withoutCapabilities runs do with the rights of its user alone: for root that is what
// a confined command of root has.
func withoutCapabilities(do func() error) error {
	runtime.LockOSThread() // a thread that does not get its capabilities back ends with its goroutine
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before [2]unix.CapUserData
	if err := unix.Capget(&header, &before[0]); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	if before[0].Effective|before[1].Effective == 0 {
		defer runtime.UnlockOSThread()
		return do()
	}
	less := before
	less[0].Effective, less[1].Effective = 0, 0
	if err := unix.Capset(&header, &less[0]); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err := do()
	if err := unix.Capset(&header, &before[0]); err != nil {
		return err
	}
	runtime.UnlockOSThread()
	return err
}
