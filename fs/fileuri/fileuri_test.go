package fileuri_test

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/fileuri"
)

func TestPath(t *testing.T) {
	for _, tt := range []struct{ uri, want string }{
		{"file:///a/b", "/a/b"},
		{"file:/a/b", "/a/b"},
		{"FILE:///a", "/a"},
		{"File://LOCALHOST/a", "/a"},
		{"file://localhost/a", "/a"},
		{"file://localhost", "/"},
		{"file:///", "/"},
		{"file://", "/"},
		{"file:/", "/"},
		{"file:///a/", "/a"},
		{"file:////a//b///", "/a/b"},
		{"file:///a/./b/../c", "/a/c"},
		{"file:///a/%2e/b/%2E%2e/c", "/a/c"},
		{"file:///a/.%2e/b", "/b"},
		{"file:///../../a", "/a"},
		{"file:///...", "/..."},
		{"file:///a%20b", "/a b"},
		{"file:///a b", "/a b"},
		{" \tfile:///a\n ", "/a"},
		{"file:///a\nb\tc", "/abc"},
		{"file:///a%0Ab", "/a\nb"},
		{`file:\\\a\b`, "/a/b"},
		{"file:///a%5Cb", `/a\b`},
		{"file:///é", "/é"},
		{"file:///%C3%A9", "/é"},
		{"file:///a%FF", "/a\xff"},
		{"file:///100%25", "/100%"},
		{"file:///%2541", "/%41"},
		{"file:///a%252Fb", "/a%2Fb"},
		{"file:///a%23b%3Fc", "/a#b?c"},
		{"file:///a+b;c", "/a+b;c"},
		{"file:///C:x", "/C:x"},
		{"file:///tmp/C:/x", "/tmp/C:/x"},
		{"file:////C:/x", "/C:/x"},
	} {
		got, err := fileuri.Path(tt.uri)
		if err != nil || got != tt.want {
			t.Errorf("Path(%q) = %q, %v; want %q", tt.uri, got, err, tt.want)
		}
	}
}

func TestPathRefused(t *testing.T) {
	for _, tt := range []struct {
		uri, reason string
		kind        fileuri.Kind
	}{
		{"", "invalid URI: relative URL without a base", fileuri.Malformed},
		{"/tmp/x", "invalid URI: relative URL without a base", fileuri.Malformed},
		{"tmp", "invalid URI: relative URL without a base", fileuri.Malformed},
		{"/a:b", "invalid URI: relative URL without a base", fileuri.Malformed},
		{"http://h/x", "unsupported path URI scheme `http`", fileuri.Malformed},
		{"HTTP://h/x", "unsupported path URI scheme `http`", fileuri.Malformed},
		{"C:/x", "unsupported path URI scheme `c`", fileuri.Malformed},
		{"file:", "is relative", fileuri.Malformed},
		{"file:a", "is relative", fileuri.Malformed},
		{"file:?a", "query parameters are not allowed in path URIs", fileuri.Malformed},
		{"file:///a?b", "query parameters are not allowed in path URIs", fileuri.Malformed},
		{"file:///a?", "query parameters are not allowed in path URIs", fileuri.Malformed},
		{"file:///a#b", "fragments are not allowed in path URIs", fileuri.Malformed},
		{"file:///a#b?c", "fragments are not allowed in path URIs", fileuri.Malformed},
		{"file:///%zz", "invalid percent escape", fileuri.Malformed},
		{"file:///100%", "incomplete percent escape", fileuri.Malformed},
		{"file:///100%/a", "incomplete percent escape", fileuri.Malformed},
		{"file:///a%4", "incomplete percent escape", fileuri.Malformed},
		{"file:///tmp%00", "'file:///tmp%00' is invalid on", fileuri.Malformed},
		{"file:///tmp\x00", "'file:///tmp%00' is invalid on", fileuri.Malformed},
		{"file:///x%2Fy", "escaped slash", fileuri.Malformed},
		{"file:///x%2fy", "escaped slash", fileuri.Malformed},
		{"file://h:80/x", "invalid URI: invalid international domain name", fileuri.Malformed},
		{"file://u@h/x", "invalid URI: invalid international domain name", fileuri.Malformed},
		{"file://h/x", "'file://h/x' is invalid on", fileuri.Malformed},
		{"file://127.0.0.1/x", "is invalid on", fileuri.Malformed},
		{"file://[::1]/x", "is invalid on", fileuri.Malformed},
		{"file:///C:", "'file:///C:' is invalid on", fileuri.Foreign},
		{"file:///C:/x", "is invalid on", fileuri.Foreign},
		{"file:///c%3A/x", "is invalid on", fileuri.Foreign},
		{"file:///C:/../x", "is invalid on", fileuri.Foreign},
		{"file:///./C:/x", "is invalid on", fileuri.Foreign},
		{"file://C:/x", "is invalid on", fileuri.Foreign},
		{"file:/C:/x", "is invalid on", fileuri.Foreign},
	} {
		got, err := fileuri.Path(tt.uri)
		failure, ok := errors.AsType[*fileuri.Error](err)
		if !ok || failure.Kind != tt.kind || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("Path(%q) = %q, %v; want an Error of kind %d with %q", tt.uri, got, err, tt.kind, tt.reason)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"/", "file:///"},
		{"/a/b/", "file:///a/b"},
		{"/a//b/../c", "file:///a/c"},
		{"/D/q a'!()*~;,[]{}|^`\"<>&=+$@:", "file:///D/q%20a'!()*~;,[]%7B%7D|^%60%22%3C%3E&=+$@:"},
		{"/nl\nx", "file:///nl%0Ax"},
		{"/bad\xff", "file:///bad%FF"},
		{"/é", "file:///%C3%A9"},
		{`/a\b`, "file:///a%5Cb"},
		{"/a\x7fb", "file:///a%7Fb"},
		{"/C:/x", "file:////C:/x"},
		{"/C:x", "file:///C:x"},
		{"a", "file:///a"},
	} {
		if got := fileuri.Format(tt.path); got != tt.want {
			t.Errorf("Format(%q) = %q, want %q", tt.path, got, tt.want)
		}
	}
}

// Every path comes back from its URI, and every URI that is read has a canonical
// form that names the same path.
func FuzzRoundTrip(f *testing.F) {
	for _, seed := range []string{
		"/a b", "/100%", "/%41", "/a%2Fb", "/a#b", "/a?b", "/C:", "/c:/x", "/C|/x", "/\xff\xfe", "/..", "/a/./b",
		"file:///a%20b", "file:///%2e%2e/C:", "FILE://localhost//a", `file:\a`, "file:///a%FF", "file://C:", "/a\\b", "/\t",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.IndexByte(s, 0) < 0 {
			want := path.Clean("/" + s)
			uri := fileuri.Format(s)
			if got, err := fileuri.Path(uri); err != nil || got != want {
				t.Errorf("Path(Format(%q)) = Path(%q) = %q, %v; want %q", s, uri, got, err, want)
			}
		}
		got, err := fileuri.Path(s)
		if err != nil {
			if _, ok := errors.AsType[*fileuri.Error](err); !ok {
				t.Errorf("Path(%q): %v is no *Error", s, err)
			}
			return
		}
		if got != path.Clean(got) || got[0] != '/' || strings.IndexByte(got, 0) >= 0 {
			t.Errorf("Path(%q) = %q is not absolute, clean and free of NUL", s, got)
		}
		if again, err := fileuri.Path(fileuri.Format(got)); err != nil || again != got {
			t.Errorf("%q names %q, whose URI %q names %q, %v", s, got, fileuri.Format(got), again, err)
		}
	})
}
