package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is searched when the child's environment has no PATH: that of the C
// library which the original is built with.
const defaultPath = "/usr/local/bin:/bin:/usr/bin"

// scriptShell runs executable text that does not say what runs it, as execvp(3) has
// it.
const scriptShell = "/bin/sh"

// findProgram finds what execvp(3) would run, were it called in dir with env: a name
// with a slash as it stands, any other in the PATH of env. The result is relative to
// dir unless it is absolute. The error is a syscall.Errno.
func findProgram(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path, ok := envValue(env, "PATH")
	if !ok {
		path = defaultPath
	}
	result := syscall.ENOENT
	for _, entry := range filepath.SplitList(path) {
		candidate := "./" + name // an empty entry is the current directory
		if entry != "" {
			candidate = strings.TrimSuffix(entry, "/") + "/" + name
		}
		err := executable(inDir(dir, candidate))
		if err == nil {
			return candidate, nil
		}
		if errors.Is(err, syscall.EACCES) { // told unless another entry has it
			result = syscall.EACCES
		}
	}
	if path == "" && executable(inDir(dir, name)) == nil {
		return "./" + name, nil
	}
	return "", result
}

// inDir is a path that is relative to dir unless it is absolute.
func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path // not Join: links make a/../b something else than b
}

// executable returns nil for a file that may be executed, else why not.
func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return syscall.EACCES
	}
	return unix.Access(path, unix.X_OK)
}

// checkDir returns nil for a directory that a child can be started in.
func checkDir(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return syscall.ENOTDIR
	}
	return unix.Access(dir, unix.X_OK)
}

// programHead is how much of a program is looked at to say what it is.
const programHead = 512

// head returns the beginning of the program at path, nothing if it cannot be read.
func head(path string) []byte {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	buf := make([]byte, programHead)
	n, _ := io.ReadFull(f, buf)
	return buf[:n]
}

// isText reports whether a program that the system cannot execute may be run by the
// shell: shells take a NUL byte before the end of the first line as the sign that
// they had better not.
func isText(begin []byte) bool {
	line, _, _ := bytes.Cut(begin, []byte("\n"))
	return !bytes.Contains(line, []byte{0})
}

// blameInterpreter says what is missing when a program is there and the system still
// did not find it. It returns "" when that is not so.
func blameInterpreter(path string) string {
	if executable(path) != nil {
		return ""
	}
	begin := head(path)
	if rest, ok := bytes.CutPrefix(begin, []byte("#!")); ok {
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		name, _, _ := strings.Cut(strings.Trim(string(line), " \t"), " ")
		return fmt.Sprintf("its interpreter %q, named in its first line, is missing", name)
	}
	return "its interpreter is missing"
}

// maxArgBytes is the most that Linux takes as one argument or variable, with the NUL
// byte at its end.
const maxArgBytes = 128 << 10

// blameSize says which argument or variable is too long, or that all together are.
func blameSize(argv, env []string) string {
	total := 0
	for i, arg := range argv {
		total += len(arg) + 1
		if len(arg) >= maxArgBytes {
			return fmt.Sprintf("argv[%d] is too long: %d bytes, at most %d are possible", i, len(arg), maxArgBytes-1)
		}
	}
	for _, entry := range env {
		total += len(entry) + 1
		if len(entry) >= maxArgBytes {
			name, _, _ := strings.Cut(entry, "=")
			return fmt.Sprintf("the environment variable %.64q is too long: %d bytes with its name, at most %d are possible", name, len(entry), maxArgBytes-1)
		}
	}
	return fmt.Sprintf("the arguments and the environment are too long together: %d bytes in %d strings", total, len(argv)+len(env))
}
