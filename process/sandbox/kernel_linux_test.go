package sandbox

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What a machine lacks is no fault of the code, but what the code fails to use is. So
// whether a test may be passed over is asked of the kernel, past the code under test.

// kernelNamespaces returns why a program cannot be started in the namespaces of a way.
func kernelNamespaces(way string) error {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC}
	if way == "user" {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return (&exec.Cmd{Path: "/bin/true", Args: []string{"true"}, SysProcAttr: attr}).Run()
}

// kernelLandlock returns why there is no Landlock.
func kernelLandlock() error {
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version); errno != 0 {
		return errno
	}
	return nil
}

// needNamespaces passes the test over where the kernel has no such namespaces, and
// fails it where only e has none.
func needNamespaces(t *testing.T, e *Enforcer, way string) {
	t.Helper()
	if err := kernelNamespaces(way); err != nil {
		t.Skipf("this machine has no such namespaces: %v", err)
	}
	if a := e.namespaces(t.Context()); !a.ok() {
		t.Fatalf("the machine has such namespaces, but they are not used: %s", a.reason)
	}
}
