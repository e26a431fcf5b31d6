package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/environment"
)

// wantFiles is how many descriptors a busy server uses: 1,000 commands with their
// three pipes, and some connections.
const wantFiles = 4096

// machineChecks looks at what wsd needs of this machine.
func machineChecks() []check {
	checks := []check{systemCheck(), shellCheck(), tempCheck(), runtimeCheck(), filesCheck(), mountCheck()}
	return append(checks, systemLimits()...)
}

func systemCheck() check {
	return check{Name: "system", Status: statusOK, Detail: fmt.Sprintf("%s/%s, %s, %d processors", runtime.GOOS, runtime.GOARCH, kernelVersion(), runtime.NumCPU())}
}

func kernelVersion() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "kernel unknown"
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}

// shellCheck looks for the shell that clients are told to use.
func shellCheck() check {
	c := check{Name: "shell", Status: statusOK}
	env, err := environment.New(environment.Config{})
	if err == nil {
		c.Detail = env.Info().Shell.Path
		_, err = os.Stat(c.Detail)
	}
	if err != nil {
		c.Status, c.Detail, c.Advice = statusMissing, err.Error(), "clients hand their commands to a shell: install bash or sh, and serve an existing directory"
	}
	return c
}

// tempCheck writes a file where temporary files go.
func tempCheck() check {
	c := check{Name: "temporary files", Status: statusOK, Detail: os.TempDir()}
	f, err := os.CreateTemp("", "wsd-doctor-*")
	if err == nil {
		f.Close()
		err = os.Remove(f.Name())
	}
	if err != nil {
		c.Status, c.Detail, c.Advice = statusMissing, err.Error(), "make the directory writable, or set TMPDIR to one that is"
	}
	return c
}

// runtimeCheck looks for the directory by which client commands find a server.
func runtimeCheck() check {
	dir, err := userRuntimeDir()
	if err != nil {
		return check{Name: "runtime directory", Status: statusLimited, Detail: err.Error(), Advice: "without it client commands need --connect: set XDG_RUNTIME_DIR to a directory of yours"}
	}
	return check{Name: "runtime directory", Status: statusOK, Detail: string(dir)}
}

// filesCheck compares the limit of open files, which Go raises to the hard one.
func filesCheck() check {
	c := check{Name: "open files", Status: statusOK}
	most, err := openFiles()
	if err != nil {
		c.Status, c.Detail = statusLimited, err.Error()
		return c
	}
	c.Detail = fmt.Sprintf("at most %d", most)
	if most < wantFiles {
		c.Status = statusLimited
		c.Advice = fmt.Sprintf("a command takes up to 4 descriptors and a connection 1: raise the hard limit (ulimit -Hn) to %d for a busy server", wantFiles)
	}
	return c
}

// openFiles is how many files wsd may have open.
func openFiles() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	return limit.Max, nil
}

// mountCheck tries to have commands see a directory elsewhere, as a workspace at its mount
// point.
func mountCheck() check {
	c := check{Name: "mount point", Status: statusOK, Detail: "commands see a workspace at its mount point"}
	dir, err := os.MkdirTemp("", "wsd-doctor-*")
	if err == nil {
		defer os.Remove(dir)
		var ns *process.Namespace
		ns, err = process.NewNamespace(dir, dir)
		ns.Close()
	}
	if err != nil {
		c.Status, c.Detail = statusLimited, err.Error()
		c.Advice = "commands of 'wsd serve --workspace DIR' start in DIR and do not find it at /workspace: serve as root, or with --mount-point DIR"
	}
	return c
}

// watchCheck compares a limit of watched directories.
func watchCheck(name string, limit, want uint64) check {
	c := check{Name: name, Status: statusOK, Detail: fmt.Sprintf("at most %d", limit)}
	if limit < want {
		c.Status = statusLimited
		c.Advice = fmt.Sprintf("fs/watch takes one for each directory, up to %d a connection: raise it with sysctl", protocol.MaxWatchedDirectories)
	}
	return c
}
