package execserver_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// privateDir makes a fresh directory that servers of other users can enter too, and
// removes it in the end.
func privateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wsd") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			makeWritable(dir)
			_ = os.RemoveAll(dir) // what is left is the system's to clean
		}
	})
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func makeWritable(dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return err
	})
}

// fileCommand does one command in dir:
//
//	mkdir NAME [MODE]     chmod NAME MODE      fifo NAME        socket NAME
//	symlink TARGET NAME   hardlink OLD NAME    fill NAME BYTES  remove NAME
//	write NAME "TEXT"     rename OLD NEW
//
// or checks something:
//
//	file NAME "TEXT"      absent NAME          mode NAME MODE   link NAME TARGET
//
// NAMEs may be quoted Go strings.
func fileCommand(dir, command string) error {
	args, err := splitArgs(command)
	if err != nil {
		return err
	}
	for len(args) < 3 {
		args = append(args, "")
	}
	name := filepath.Join(dir, args[1])
	switch args[0] {
	case "mkdir":
		if args[2] == "" {
			args[2] = "755"
		}
		if err := os.MkdirAll(name, 0o755); err != nil {
			return err
		}
		return chmod(name, args[2])
	case "chmod":
		return chmod(name, args[2])
	case "fifo":
		return syscall.Mkfifo(name, 0o644)
	case "socket":
		return makeSocket(name)
	case "symlink":
		return os.Symlink(args[1], filepath.Join(dir, args[2]))
	case "hardlink":
		return os.Link(name, filepath.Join(dir, args[2]))
	case "rename":
		return os.Rename(name, filepath.Join(dir, args[2]))
	case "fill":
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return os.WriteFile(name, []byte(strings.Repeat("x", n)), 0o644)
	case "write":
		return os.WriteFile(name, []byte(args[2]), 0o644)
	case "remove":
		return os.RemoveAll(name)
	}
	return fileCheck(args[0], name, args[2])
}

func fileCheck(check, name, want string) error {
	var got string
	var err error
	switch check {
	case "file":
		var data []byte
		data, err = os.ReadFile(name)
		got = string(data)
	case "absent":
		if _, err := os.Lstat(name); !os.IsNotExist(err) {
			return fmt.Errorf("%s exists, or: %w", name, err)
		}
		return nil
	case "mode":
		var info os.FileInfo
		if info, err = os.Stat(name); err == nil {
			got = strconv.FormatUint(uint64(info.Mode().Perm()), 8)
		}
	case "link":
		got, err = os.Readlink(name)
	default:
		return fmt.Errorf("unknown command %q", check)
	}
	if err == nil && got != want {
		err = fmt.Errorf("%s: %s is %q, want %q", name, check, got, want)
	}
	return err
}

func chmod(name, mode string) error {
	bits, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		return err
	}
	return os.Chmod(name, os.FileMode(bits))
}

// makeSocket leaves the file of a Unix socket that nobody listens on.
func makeSocket(name string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}

// splitArgs splits at blanks, and takes quoted Go strings as one argument.
func splitArgs(s string) ([]string, error) {
	var args []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeft(s, " ") {
		if s[0] == '"' {
			quoted, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, fmt.Errorf("quoted text: %w", err)
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			args, s = append(args, text), s[len(quoted):]
			continue
		}
		word, rest, _ := strings.Cut(s, " ")
		args, s = append(args, word), rest
	}
	return args, nil
}
