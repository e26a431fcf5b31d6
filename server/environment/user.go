package environment

import (
	"bufio"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wsd-dev/wsd/protocol"
)

// account is what the system knows of the user that runs the server.
type account struct {
	home, shell string // from the password file; empty when not there
	getenv      func(string) string
	executable  func(path string) bool
}

func lookupUser() account {
	a := account{getenv: os.Getenv, executable: isExecutable}
	if f, err := os.Open("/etc/passwd"); err == nil {
		defer f.Close()
		a.home, a.shell = findAccount(f, strconv.Itoa(os.Getuid()))
	}
	if a.home == "" {
		if u, err := user.Current(); err == nil {
			a.home = u.HomeDir
		}
	}
	return a
}

// findAccount reads the home and the shell of uid from a password file: lines of
// name:password:uid:gid:comment:home:shell.
func findAccount(r io.Reader, uid string) (home, shell string) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) >= 7 && fields[2] == uid {
			return fields[5], fields[6]
		}
	}
	return "", ""
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// homeDir is HOME, else the password file's word, else the root.
func (a account) homeDir() string {
	for _, dir := range []string{a.getenv("HOME"), a.home} {
		if filepath.IsAbs(dir) {
			return dir
		}
	}
	return "/"
}

// knownShells are those a client knows how to hand a script to.
var knownShells = map[string]bool{"bash": true, "zsh": true, "sh": true}

// loginShell is the password file's shell, else SHELL, where that is one that
// clients know and that exists; else the first usual shell that does.
func (a account) loginShell() protocol.Shell {
	for _, path := range []string{
		a.shell, a.getenv("SHELL"),
		"/bin/bash", "/usr/bin/bash", "/bin/zsh", "/usr/bin/zsh", "/bin/sh",
	} {
		if name := filepath.Base(path); filepath.IsAbs(path) && knownShells[name] && a.executable(path) {
			return protocol.Shell{Name: name, Path: path}
		}
	}
	return protocol.Shell{Name: "sh", Path: "/bin/sh"}
}
