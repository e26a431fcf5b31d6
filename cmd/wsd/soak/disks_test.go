//go:build e2e && linux

package soak

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ownMounts says that the test runs in a mount namespace of its own.
const ownMounts = "WSD_SOAK_OWN_MOUNTS"

// TestMain runs the tests in a mount namespace of their own, if the kernel lets us have one:
// its disks go with its processes.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(ownMounts) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:noctx // It ends with the tests.
	cmd.Env = append(os.Environ(), ownMounts+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	if errors.Is(err, unix.EPERM) {
		os.Exit(m.Run())
	}
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// largestDisk is what a disk has room for while it is not made full. Its pages are memory, but
// for those that are free.
const largestDisk = 4 << 30

// A volume has all that belongs to one side.
type volume struct {
	dir     string
	mounted bool
}

// newVolume makes one. It is a file system of its own if we may have one; else it is never full.
func newVolume(t *testing.T, dir string) *volume {
	t.Helper()
	d := &volume{dir: dir}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Getenv(ownMounts) == "" {
		t.Log("no disk is ever full: that takes a mount namespace")
		return d
	}
	err := unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d", largestDisk))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Logf("no disk is ever full: %v", err)
		return d
	}
	if err != nil {
		t.Fatal(err)
	}
	d.mounted = true
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

// fill leaves room for so many bytes. It reports whether it could.
func (d *volume) fill(room int64) (bool, error) {
	if !d.mounted {
		return false, nil
	}
	for range 100 {
		var s unix.Statfs_t
		if err := unix.Statfs(d.dir, &s); err != nil {
			return false, err
		}
		used := int64(s.Blocks-s.Bfree) * s.Bsize //nolint:gosec // It is below largestDisk.
		err := d.resize(used + room)
		if !errors.Is(err, unix.EINVAL) { // more was written meanwhile
			return err == nil, err
		}
	}
	return false, nil
}

// empty makes room again.
func (d *volume) empty() error {
	if !d.mounted {
		return nil
	}
	return d.resize(largestDisk)
}

func (d *volume) resize(size int64) error {
	return unix.Mount("none", d.dir, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", max(size, 1<<20)))
}

func (d *volume) path(name string) string { return filepath.Join(d.dir, name) }
