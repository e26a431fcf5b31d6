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

// F3: lengths are those that names have on a disk, and a path has one form.
func TestF3NamesOfAnyBytes(t *testing.T) {
	const raw, noForm = "\U0010FEFF", "\U0010FEC3\U0010FEA9"
	for path, want := range map[string]error{
		"/" + strings.Repeat(raw, MaxSegment):                  nil,
		"/" + strings.Repeat(raw, MaxSegment+1):                ErrNameTooLong,
		strings.Repeat("/"+strings.Repeat(raw, 255), 16):       nil,
		strings.Repeat("/"+strings.Repeat(raw, 255), 16) + "/": nil, // cleaned
		strings.Repeat("/"+strings.Repeat(raw, 255), 17):       ErrNameTooLong,
		"/a/" + noForm: ErrInvalid, "/a/" + noForm + "/b": ErrInvalid,
	} {
		if got, err := Clean(path); !errors.Is(err, want) {
			t.Errorf("%.40q: %.40q, %v, want %v", path, got, err, want)
		}
		if err := checkPath(strings.TrimSuffix(path, "/")); !errors.Is(err, want) {
			t.Errorf("%.40q: %v, want %v", path, err, want)
		}
	}
	for target, want := range map[string]error{raw: nil, strings.Repeat(raw, MaxTarget): nil, strings.Repeat(raw, MaxTarget+1): ErrNameTooLong, noForm: ErrInvalid} {
		if err := checkTarget(target); !errors.Is(err, want) {
			t.Errorf("a link to %.40q: %v, want %v", target, err, want)
		}
	}
	for name, want := range map[string]string{
		"/d/" + strings.Repeat(raw, 255): "/d/" + strings.Repeat(raw, 245), "/d/" + strings.Repeat("é", 127): "/d/" + strings.Repeat("é", 122),
		"/d/short": "/d/short", "/d/" + strings.Repeat("n", 250): "/d/" + strings.Repeat("n", 245),
	} {
		if got := Shorten(name, 10); got != want {
			t.Errorf("%.20q is %d bytes, want %d", name, len(got), len(want))
		}
	}
}
