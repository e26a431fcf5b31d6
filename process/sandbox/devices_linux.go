package sandbox

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// deviceNames are the devices of a sandbox: those that give access to nothing.
var deviceNames = []string{"null", "zero", "full", "random", "urandom", "tty"}

var deviceLinks = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	"ptmx": "pts/ptmx",
}

// devices is a /dev of our own: harmless devices of the host, terminals and shared
// memory of the sandbox's own, and nothing else. What can be written on the host
// through a device is out of reach of read-only mounts.
type devices struct {
	tree  int // the file system, detached until it is attached at /dev
	nodes map[string]int
}

// attrDevice is for single devices: they can be written through a read-only mount, but
// their modes, owners and times cannot be changed.
const attrDevice = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC

// takeDevices clones the host's devices.
func takeDevices() (*devices, error) {
	tree, err := newFS("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "mode", "0755")
	if err != nil {
		return nil, err
	}
	d := &devices{tree: tree, nodes: map[string]int{}}
	for _, name := range deviceNames {
		node, err := takeTree("/dev/"+name, attrDevice)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, step(err, "take /dev/%s", name)
		}
		d.nodes[name] = node
	}
	return d, nil
}

// populate fills the file system once it is attached.
func (d *devices) populate() error {
	for name, node := range d.nodes {
		if err := makeFile(d.tree, name, 0o444); err != nil {
			return step(err, "make /dev/%s", name)
		}
		if err := attach(node, d.tree, name); err != nil {
			return step(err, "mount /dev/%s", name)
		}
		_ = unix.Close(node)
	}
	for name, target := range deviceLinks {
		if err := unix.Symlinkat(target, d.tree, name); err != nil {
			return step(err, "make /dev/%s", name)
		}
	}
	terminals, err := newFS("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "ptmxmode", "0666", "mode", "0620")
	if err != nil {
		return err
	}
	if err := d.mount(terminals, "pts"); err != nil {
		return err
	}
	memory, err := newTmpfs("1777")
	if err != nil {
		return err
	}
	return d.mount(memory, "shm")
}

func (d *devices) mount(tree int, name string) error {
	if err := makeDir(d.tree, name, 0o755); err != nil {
		return step(err, "make /dev/%s", name)
	}
	if err := attach(tree, d.tree, name); err != nil {
		return step(err, "mount /dev/%s", name)
	}
	return unix.Close(tree)
}

// seal makes the directory itself read-only.
func (d *devices) seal() error {
	err := unix.MountSetattr(d.tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	return step(err, "restrict /dev")
}

const devNull = "/dev/null"

// takeInput takes the null device for replaceInput if it is descriptor 0.
func (m *mounter) takeInput() error {
	if !isNullInput() {
		return nil
	}
	tree, err := takeTree(devNull, attrDevice)
	m.input = tree
	return step(err, "take %s", devNull)
}

// replaceInput has descriptor 0, which is the null device of the host, be that of the
// view: the mode of what a descriptor is open on can be changed by it.
func (m *mounter) replaceInput() error {
	if m.input < 0 {
		return nil
	}
	defer unix.Close(m.input) //nolint:errcheck // the open file keeps the mount
	fd, err := unix.Open(devNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil { // the policy hides it
		fd, err = unix.Open("/proc/self/fd/"+strconv.Itoa(m.input), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return step(err, "open %s", devNull)
	}
	defer unix.Close(fd) //nolint:errcheck // is descriptor 0 now
	return step(unix.Dup3(fd, 0, 0), "put %s in place", devNull)
}

func isNullInput() bool {
	var in, null unix.Stat_t
	return unix.Fstat(0, &in) == nil && unix.Stat(devNull, &null) == nil &&
		in.Mode&unix.S_IFMT == unix.S_IFCHR && in.Rdev == null.Rdev
}

func isDevice(at string) bool {
	var st unix.Stat_t
	return unix.Lstat(at, &st) == nil && (st.Mode&unix.S_IFMT == unix.S_IFCHR || st.Mode&unix.S_IFMT == unix.S_IFBLK)
}
