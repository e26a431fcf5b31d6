package tree

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/slashpath"
)

// Limits of names, in the bytes that they have on a disk (package rawname).
const (
	MaxPath    = 4096
	MaxSegment = 255
	MaxTarget  = 4096
)

// Clean makes a path of the tree from what a caller gives: absolute, without empty, "."
// and ".." segments, which are taken as text, before links are. ".." of the root is the
// root. Nothing else is special in a path.
func Clean(path string) (string, error) {
	if !isText(path) {
		return "", fmt.Errorf("%w: a path is UTF-8 without NUL", ErrInvalid)
	}
	if err := CheckForm(path); err != nil {
		return "", err
	}
	if clean(path) {
		return path, checkLengths(path)
	}
	var kept []string
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "", ".":
		case "..":
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
		default:
			kept = append(kept, segment)
		}
	}
	path = "/" + strings.Join(kept, "/")
	return path, checkLengths(path)
}

// CheckPath refuses a path that Clean would change: the rule for what comes from peers. See
// CheckForm too.
func CheckPath(path string) error {
	if !clean(path) || !isText(path) {
		return fmt.Errorf("%w: not an absolute, canonical path", ErrInvalid)
	}
	return checkLengths(path)
}

// CheckForm refuses a path, or a link's target, that is the form of no name (package rawname).
func CheckForm(text string) error {
	if !rawname.Has(text) {
		return nil
	}
	if _, err := rawname.Decode(text); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// checkPath is CheckPath and CheckForm.
func checkPath(path string) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	return CheckForm(path)
}

func isText(path string) bool { return strings.IndexByte(path, 0) < 0 && utf8.ValidString(path) }

// clean reports whether Clean leaves the path as it is, apart from its lengths.
func clean(path string) bool {
	if path == "/" {
		return true
	}
	if path == "" || path[0] != '/' {
		return false
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

func checkLengths(path string) error {
	if len(path) > MaxPath && rawname.Len(path) > MaxPath {
		return fmt.Errorf("%w: a path has at most %d bytes", ErrNameTooLong, MaxPath)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if len(segment) > MaxSegment && rawname.Len(segment) > MaxSegment {
			return fmt.Errorf("%w: a name has at most %d bytes", ErrNameTooLong, MaxSegment)
		}
	}
	return nil
}

// CheckTarget refuses what a link may not have for a text. It may dangle, and is kept as it is.
// See CheckForm too.
func CheckTarget(target string) error {
	if strings.TrimSpace(target) == "" || !isText(target) {
		return fmt.Errorf("%w: a link's target is UTF-8 that is not blank, without NUL", ErrInvalid)
	}
	if rawname.Len(target) > MaxTarget {
		return fmt.Errorf("%w: a link's target has at most %d bytes", ErrNameTooLong, MaxTarget)
	}
	return nil
}

// checkTarget is CheckTarget and CheckForm.
func checkTarget(target string) error {
	if err := CheckTarget(target); err != nil {
		return err
	}
	return CheckForm(target)
}

// hides reports whether a segment of the path is one of ignore.
func hides(ignore map[string]bool, path string) bool {
	if len(ignore) == 0 {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if ignore[segment] {
			return true
		}
	}
	return false
}

// Shorten cuts the last name of a path so that n bytes can be added to it.
func Shorten(path string, n int) string {
	name := slashpath.Base(path)
	for over := rawname.Len(name) + n - MaxSegment; over > 0 && name != ""; {
		_, size := utf8.DecodeLastRuneInString(name)
		over -= rawname.Len(name[len(name)-size:])
		name, path = name[:len(name)-size], path[:len(path)-size]
	}
	return path
}

// cutName splits off the first segment of a relative path.
func cutName(path string) (name, rest string, more bool) { return strings.Cut(path, "/") }
