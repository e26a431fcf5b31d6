package fileuri

import (
	"path"
	"strings"
)

const upperHex = "0123456789ABCDEF"

// escaped says which bytes of a path are written as escapes: control characters,
// space, " # % < > ? \ ` { } and every byte that is not ASCII.
var escaped = func() (t [256]bool) {
	for i := range t {
		t[i] = i <= ' ' || i >= 0x7f || strings.IndexByte("\"#%<>?\\`{}", byte(i)) >= 0
	}
	return t
}()

// Format returns the URI of an absolute path, lexically cleaned. A path that is not
// absolute is taken as one below the root.
func Format(p string) string {
	p = path.Clean("/" + p)
	n := len("file://") + len(p)
	for i := range len(p) {
		if escaped[p[i]] {
			n += 2
		}
	}
	out := make([]byte, 0, n+1)
	out = append(out, "file://"...)
	if name, _, _ := strings.Cut(p[1:], "/"); isDriveLetter(name) {
		out = append(out, '/') // an empty first segment tells it from a drive
	}
	for i := range len(p) {
		c := p[i]
		if escaped[c] {
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
			continue
		}
		out = append(out, c)
	}
	return string(out)
}
