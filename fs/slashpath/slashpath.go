// Package slashpath joins, cuts and compares clean paths as text.
//
// A path is clean as path.Clean makes it and has slashes on every system. It is absolute below the root "/",
// or relative to a root that is written "". The package does not clean paths and does not look at the disk:
// ".." and "." are names like others. Both paths of a call are of one kind.
package slashpath

import (
	"cmp"
	"strings"
)

// MaxLinks is how many symbolic links one path may lead through, as in the kernel.
const MaxLinks = 40

// Join returns the path of name, which may be a relative path, in dir. "" and "." stand for dir itself.
func Join(dir, name string) string {
	switch {
	case name == "" || name == ".":
		return dir
	case dir == "" || dir == "/":
		return dir + name
	}
	return dir + "/" + name
}

// Dir returns the directory that a path is in. A root is in itself.
func Dir(path string) string {
	dir, _ := Split(path)
	return dir
}

// Base returns the last name of a path, "" for a root.
func Base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Split returns the directory that a path is in, and its name there.
func Split(path string) (dir, name string) {
	switch i := strings.LastIndexByte(path, '/'); i {
	case -1:
		return "", path
	case 0:
		return "/", path[1:]
	default:
		return path[:i], path[i+1:]
	}
}

// Within reports whether path is dir or below it. Every path is within a root.
func Within(path, dir string) bool {
	return dir == "" || dir == "/" ||
		strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}

// Cut returns path relative to dir, "" for dir itself. It is false for a path that is not within dir.
func Cut(path, dir string) (rest string, ok bool) {
	if !Within(path, dir) {
		return "", false
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, dir), "/"), true
}

// Compare orders paths so that a directory is followed by all that is below it.
func Compare(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) || i == len(b) {
		return cmp.Compare(len(a), len(b))
	}
	x, y := a[i], b[i]
	switch {
	case x == '/':
		return -1
	case y == '/':
		return 1
	}
	return cmp.Compare(x, y)
}
