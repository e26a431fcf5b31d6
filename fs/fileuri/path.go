package fileuri

import (
	"fmt"
	"runtime"
	"strings"
)

// Kind tells the ways apart in which a URI can fail to name a path.
type Kind int

const (
	// Malformed: no file URI, or one that has no single meaning. The wire says -32602.
	Malformed Kind = iota
	// Foreign: a good URI of another kind of system, such as one that begins with a
	// drive letter. The wire says -32600 for fs/*, -32602 for a working directory.
	Foreign
)

// Error is the reason why a URI names no path of this host. Its text is fit for the
// wire.
type Error struct {
	Kind   Kind
	Reason string
	unfit  bool
}

func (e *Error) Error() string { return e.Reason }

// Unfit reports whether the URI is one of a file, but of none that this host can have.
func (e *Error) Unfit() bool { return e.unfit }

func malformed(format string, args ...any) error {
	return &Error{Kind: Malformed, Reason: fmt.Sprintf(format, args...)}
}

// system is the name of this system on the wire.
func system() string {
	if runtime.GOOS == "darwin" {
		return "macos"
	}
	return runtime.GOOS
}

// Path returns the absolute, lexically clean path that uri names. Its error is an
// *Error.
//
// Accepted are file:///a, file:/a, file://localhost/a, any case of the scheme and
// of localhost; dots, also escaped ones, are resolved, doubled and trailing slashes
// dropped, a raw backslash is a slash, blanks at the ends and raw tabs and line
// breaks do not count.
func Path(uri string) (string, error) {
	if strings.IndexByte(uri, 0) >= 0 {
		return "", invalidHere(Malformed, uri)
	}
	rest, err := afterScheme(trim(uri))
	if err != nil {
		return "", err
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		if rest[i] == '?' {
			return "", malformed("query parameters are not allowed in path URIs")
		}
		return "", malformed("fragments are not allowed in path URIs")
	}
	rest = strings.ReplaceAll(rest, `\`, "/")
	rest, err = afterHost(uri, rest)
	if err != nil {
		return "", err
	}
	return resolve(uri, rest)
}

func invalidHere(kind Kind, uri string) error {
	return &Error{Kind: kind, unfit: true, Reason: fmt.Sprintf("'%s' is invalid on '%s'", printable(uri), system())}
}

// printable is uri with NULs shown, since they cut texts short where they are read.
func printable(uri string) string { return strings.ReplaceAll(uri, "\x00", "%00") }

// trim drops what a URL parser does not see.
func trim(uri string) string {
	uri = strings.TrimFunc(uri, func(r rune) bool { return r <= ' ' })
	if strings.ContainsAny(uri, "\t\n\r") {
		uri = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(uri)
	}
	return uri
}

// afterScheme returns what follows "file:".
func afterScheme(uri string) (string, error) {
	scheme, rest, found := strings.Cut(uri, ":")
	if !found || !isScheme(scheme) {
		return "", malformed("invalid URI: relative URL without a base")
	}
	if !strings.EqualFold(scheme, "file") {
		return "", malformed("unsupported path URI scheme `%s`", strings.ToLower(scheme))
	}
	return rest, nil
}

func isScheme(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return s != ""
}

// afterHost returns the path part of rest, which follows the scheme.
func afterHost(uri, rest string) (string, error) {
	if !strings.HasPrefix(rest, "/") {
		return "", malformed("invalid URI: `%s` is relative", printable(uri))
	}
	authority, found := strings.CutPrefix(rest, "//")
	if !found {
		return rest, nil
	}
	host, path, _ := strings.Cut(authority, "/")
	switch {
	case host == "" || strings.EqualFold(host, "localhost"):
		return "/" + path, nil
	case isDriveLetter(host):
		return "", invalidHere(Foreign, uri)
	case strings.ContainsAny(host, ":@") && !strings.HasPrefix(host, "["):
		return "", malformed("invalid URI: invalid international domain name")
	}
	return "", invalidHere(Malformed, uri)
}

// resolve decodes the segments of path and resolves its dots.
func resolve(uri, path string) (string, error) {
	var segments []string // with the empty ones, which ".." removes like others
	for segment := range strings.SplitSeq(path[1:], "/") {
		name, err := unescape(uri, segment)
		if err != nil {
			return "", err
		}
		switch {
		case name == ".":
		case name == "..":
			if len(segments) > 0 {
				segments = segments[:len(segments)-1]
			}
		case len(segments) == 0 && isDriveLetter(name):
			return "", invalidHere(Foreign, uri)
		default:
			segments = append(segments, name)
		}
	}
	var out strings.Builder
	out.Grow(len(path))
	for _, name := range segments {
		if name != "" {
			out.WriteByte('/')
			out.WriteString(name)
		}
	}
	if out.Len() == 0 {
		return "/", nil
	}
	return out.String(), nil
}

func isDriveLetter(s string) bool {
	return len(s) == 2 && s[1] == ':' && 'a' <= s[0]|0x20 && s[0]|0x20 <= 'z'
}

// unescape decodes the escapes of one segment.
func unescape(uri, segment string) (string, error) {
	if strings.IndexByte(segment, '%') < 0 {
		return segment, nil
	}
	out := make([]byte, 0, len(segment))
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if c == '%' {
			if i+2 >= len(segment) {
				return "", malformed("invalid URI: incomplete percent escape in `%s`", uri)
			}
			hi, lo := unhex(segment[i+1]), unhex(segment[i+2])
			if hi < 0 || lo < 0 {
				return "", malformed("invalid URI: invalid percent escape `%s` in `%s`", segment[i:i+3], uri)
			}
			c = byte(hi<<4 | lo)
			i += 2
			switch c {
			case 0:
				return "", invalidHere(Malformed, uri)
			case '/':
				return "", malformed("invalid URI: escaped slash in `%s`", uri)
			}
		}
		out = append(out, c)
	}
	return string(out), nil
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
