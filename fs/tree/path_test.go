package tree

import (
	"errors"
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	long := strings.Repeat("n", MaxSegment)
	for _, tt := range []struct {
		in, want string
		err      error
	}{
		{"a/b", "/a/b", nil},
		{"/a//b/", "/a/b", nil},
		{"/a/./b", "/a/b", nil},
		{"/a/b/../c", "/a/c", nil},
		{"/../../etc/passwd", "/etc/passwd", nil},
		{"", "/", nil},
		{".", "/", nil},
		{"/", "/", nil},
		{"..", "/", nil},
		{"/a\\b/%_* \n/é", "/a\\b/%_* \n/é", nil},
		{"/...", "/...", nil},
		{"/" + long, "/" + long, nil},
		{"/" + long + "n", "", ErrNameTooLong},
		{strings.Repeat("/0123456789abcde", 256), strings.Repeat("/0123456789abcde", 256), nil},
		{strings.Repeat("/0123456789abcde", 257), "", ErrNameTooLong},
		{"/" + strings.Repeat("./", 5000) + "a", "/a", nil}, // the limit is of what comes out
		{"/a\x00", "", ErrInvalid},
		{"/a\xff", "", ErrInvalid},
	} {
		got, err := Clean(tt.in)
		if !errors.Is(err, tt.err) || err == nil && got != tt.want {
			t.Errorf("%.40q: %.40q, %v", tt.in, got, err)
		}
		// The strict rule takes exactly what would not change.
		if strict := CheckPath(tt.in) == nil; strict != (err == nil && got == tt.in) {
			t.Errorf("%.40q: strictly %v", tt.in, strict)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{"", "/", "a/../b", "//x/./y/", "/\U0001F600", "/a\xff", "..//.."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		once, err := Clean(in)
		if err != nil {
			return
		}
		if twice, err := Clean(once); twice != once || err != nil || CheckPath(once) != nil {
			t.Errorf("%q, then %q, then %q, %v, %v", in, once, twice, err, CheckPath(once))
		}
	})
}

func TestHides(t *testing.T) {
	ignore := map[string]bool{"node_modules": true, "x": true}
	for path, want := range map[string]bool{
		"/node_modules": true, "/a/node_modules/b": true, "/a/node_modules_old": false, "/a/b/x": true, "/xx/y": false, "/": false, "/X": false,
	} {
		if got := hides(ignore, path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
